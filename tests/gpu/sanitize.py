"""Run every compute-sanitizer tool over every kernel and record what they found.

    python -m tests.gpu.sanitize

Exits with 1 if a tool found an error, or did not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from tests.gpu import last_run
from tests.gpu.sanitized import PARTS

TOOLS = {
    "memcheck": ["--leak-check", "no"],
    "racecheck": ["--racecheck-report", "all"],
    "synccheck": [],
    "initcheck": [],
}
LIMIT_S = 240
MOST_AT_ONCE = 16
# What a tool says of itself, counted among the errors: nothing was found by it.
OWN_ERROR, TRIES = "Internal Sanitizer Error", 3


def check(tool: str, part: str) -> int | None:
    """Errors that one tool found in a part; None where that did not come to its end."""
    command = ["compute-sanitizer", "--tool", tool, *TOOLS[tool], "--print-limit", "20"]
    program = [sys.executable, "-m", "tests.gpu.sanitized", part]
    begun, output = perf_counter(), ""
    for _ in range(TRIES):
        try:
            done = subprocess.run(
                [*command, *program], capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
            output = done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            output = f"not done after {LIMIT_S} s"
        if OWN_ERROR not in output:
            break
    # Racecheck has a summary of its own.
    found = re.findall(r"(?:ERROR SUMMARY: |RACECHECK SUMMARY: )(\d+)", output)
    whole = f"{part}: all kernels have run" in output
    errors = int(found[-1]) if found and whole else None
    said = "" if errors == 0 else "\n" + output[-4000:]
    sys.stdout.write(f"{tool}, {part}: {errors} ({perf_counter() - begun:.0f} s){said}\n")
    sys.stdout.flush()
    return errors


def main() -> None:
    tools = sys.argv[1:] or list(TOOLS)
    pairs = [(tool, part) for part in PARTS for tool in tools]
    with ThreadPoolExecutor(min(MOST_AT_ONCE, os.cpu_count() or 1)) as executor:
        errors = dict(zip(pairs, executor.map(check, *zip(*pairs, strict=True)), strict=True))
    found = {}
    for tool in tools:
        counts = [errors[tool, part] for part in PARTS]
        known = [count for count in counts if count is not None]
        found[tool] = {
            "errors": sum(known) if len(known) == len(counts) else None,
            "programs": len(counts),
        }
        sys.stdout.write(f"{tool} {found[tool]}\n")
    last_run.write("sanitizer", {"tools": found})
    sys.exit(any(result["errors"] != 0 for result in found.values()))


if __name__ == "__main__":
    main()
