"""What is in the pages of the documentation: programs, commands, and which are not executed."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_EXECUTED = {
    "docs/how-to/clusters.md": "needs a cluster of several hosts",
    "docs/how-to/operations.md": "needs Dagster, see test_jobs_dagster",
    "docs/tutorial/gpu.md": "needs a GPU, see tests/gpu/test_cuda_docs.py",
}
"""Pages of ``docs/`` whose programs are type-checked instead, and why."""
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A block, with its language."""


def blocks(page: str, language: str) -> list[str]:
    """Blocks of one language in a page's text, in order."""
    return [block for found, block in FENCE.findall(page) if found == language]


def prompted(block: str) -> list[str]:
    """Commands of a console block."""
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
