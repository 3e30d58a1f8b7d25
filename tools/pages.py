"""Pages of the documentation whose programs are not executed."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_EXECUTED = {
    "docs/how-to/clusters.md": "needs a cluster of several hosts",
    "docs/how-to/operations.md": "needs Dagster, see test_jobs_dagster",
    "docs/tutorial/gpu.md": "needs a GPU",
}
"""Pages of ``docs/`` whose programs are type-checked instead, and why."""
