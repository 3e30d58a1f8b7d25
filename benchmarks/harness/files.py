"""Files of a benchmark: their pages in the system's memory, and programs that are run on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def drop_from_cache(paths: Iterable[Path]) -> None:
    """Bring files to the disk and have the system forget their pages."""
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def in_own_process(
    script: str | Path, *arguments: object, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a script in a process of its own; the JSON object in the last line of its output.

    ``environment`` is what it has in addition to this one's.
    """
    done = subprocess.run(
        [sys.executable, script, *map(str, arguments)],
        check=True,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
    )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures
