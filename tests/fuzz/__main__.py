"""Fuzz readers and csgraph: ``python -m tests.fuzz --executions 1000000``, or ``make fuzz``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ooc_graph.report.records import append_record
from tests.fuzz.engine import ROOT
from tests.fuzz.targets import load_all

RECORD = ROOT / "benchmarks" / "records" / "fuzz.jsonl"
MEMORY = Path("/dev/shm")
MOST_CRASHES = 5
PACKAGES = ("atheris", "pyarrow", "pydantic", "zstandard")
SLOW = {"signed": 12, "damaged": 12, "run": 12, "events": 8, "job": 3, "csgraph": 12}
"""By how a target's name begins: as many fewer executions, since each takes so much longer."""


def slowness(name: str) -> int:
    """Times fewer executions of a target."""
    return SLOW.get(name.partition("-")[0], 1)


def main() -> int:
    """Fuzz all targets, or some; 1 if there was a defect."""
    options = _options()
    names = [n for n in load_all() if not options.targets or n in options.targets]
    shares = {name: 1 / slowness(name) for name in names}
    engine = "atheris" if find_spec("atheris") else "mutations"
    print(f"seed {options.seed}, {engine}, {len(names)} targets, found: {options.found}")
    total = 0
    for name in names:
        executions = max(1, round(options.executions * shares[name] / sum(shares.values())))
        counts = fuzz(name, executions, options.seed, options.found / name)
        total += counts["defects"]
        print(f"{name}: {json.dumps(counts)}", flush=True)
        if not options.no_record:
            append_record(RECORD, _record(name, engine, options.seed, counts))
    return int(total > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--executions", type=int, default=1_000_000, help="of all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--found", type=Path, default=ROOT / "build" / "fuzz", metavar="FOLDER")
    parser.add_argument("--no-record", action="store_true", help=f"write nothing to {RECORD.name}")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all unless given")
    return parser.parse_args()


def fuzz(name: str, executions: int, seed: int, found: Path) -> dict[str, Any]:
    """Execute a target, again after a crash; inputs of defects are in the folder ``found``."""
    total: dict[str, Any] = dict.fromkeys(("executions", "read", "refused", "defects"), 0)
    total |= {"seconds": 0.0, "crashes": 0, "kinds": set()}
    while total["executions"] < executions and total["crashes"] < MOST_CRASHES:
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as scratch:
            folder = Path(scratch)
            left = executions - total["executions"]
            words = [name, left, seed + total["crashes"], folder, found / "corpus"]
            command = [sys.executable, "-m", "tests.fuzz.engine", *map(str, words)]
            # Kernels that look at the bytes say so if they read beyond them.
            checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(found.parent / "kernels")}
            environment = {**os.environ, **(checked if name.startswith("edges") else {})}
            ended = subprocess.run(
                command, check=False, cwd=ROOT, env=environment, capture_output=True
            )
            counts = folder / "counts.json"
            done = json.loads(counts.read_text()) if counts.exists() else {}
            found.mkdir(parents=True, exist_ok=True)
            for path in folder.glob("defect-*"):
                shutil.copy(path, found)
            if ended.returncode:
                total["crashes"] += 1
                total["defects"] += 1
                crash = found / f"defect-crash-{seed + total['crashes']}"
                if (folder / "now").exists():
                    shutil.copy(folder / "now", crash)
                crash.with_suffix(".txt").write_bytes(ended.stdout + ended.stderr)
        for key in ("executions", "read", "refused", "defects", "seconds"):
            total[key] += done.get(key, 0)
        total["kinds"] |= set(done.get("kinds", ()))
        if not ended.returncode:
            break
    return total | {"kinds": sorted(total["kinds"]), "seconds": round(total["seconds"], 1)}


def _record(name: str, engine: str, seed: int, counts: dict[str, Any]) -> dict[str, Any]:
    versions = {one: metadata.version(one) for one in PACKAGES if find_spec(one)}
    return {"benchmark": "fuzz", "target": name, "engine": engine, "seed": seed, **counts} | {
        "versions": {**versions, "python": sys.version.split()[0]}
    }


if __name__ == "__main__":
    sys.exit(main())
