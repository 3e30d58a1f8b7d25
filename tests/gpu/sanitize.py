"""Run every compute-sanitizer tool over every kernel and record what they found.

    python -m tests.gpu.sanitize

Exits with 1 if a tool found an error, or did not run.
"""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.gpu import last_run

TOOLS = {
    "memcheck": ["--leak-check", "no"],
    "racecheck": ["--racecheck-report", "all"],
    "synccheck": [],
    "initcheck": [],
}
LIMIT_S = 240


def check(tool: str) -> dict[str, object]:
    """Errors that one tool found; None where it did not come to an end."""
    command = ["compute-sanitizer", "--tool", tool, *TOOLS[tool], "--print-limit", "20"]
    program = [sys.executable, "-m", "tests.gpu.sanitized"]
    try:
        done = subprocess.run(
            [*command, *program], capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"errors": None, "why": f"not done after {LIMIT_S} s"}
    output = done.stdout + done.stderr
    # Racecheck has a summary of its own.
    found = re.findall(r"(?:ERROR SUMMARY: |RACECHECK SUMMARY: )(\d+)", output)
    whole = "all kernels have run" in output
    if not found or not whole or int(found[-1]):
        sys.stdout.write(output[-6000:])
    if not found or not whole:
        return {"errors": None, "why": "the program did not come to its end"}
    return {"errors": int(found[-1])}


def main() -> None:
    tools = sys.argv[1:] or list(TOOLS)
    with ThreadPoolExecutor(len(tools)) as executor:
        found = dict(zip(tools, executor.map(check, tools), strict=True))
    for tool, result in found.items():
        sys.stdout.write(f"{tool} {result}\n")
    last_run.write("sanitizer", {"tools": found})
    sys.exit(any(result["errors"] != 0 for result in found.values()))


if __name__ == "__main__":
    main()
