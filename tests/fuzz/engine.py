"""Executions of one target in one process: by atheris where that is installed, else by mutations.

Called by ``python -m tests.fuzz`` for each target, since a reader may crash or hang its process.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import random
import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.fuzz.mutations import WORDS, mutated, other_json

ROOT = Path(__file__).parents[2]
LONGEST_S = 20
"""An execution that takes longer hangs."""
MORE_BYTES = 3 << 30
"""Address space for executions, beside what is there once all valid inputs were read."""
_NOTED_EACH_S = 2.0


class Campaign:
    """Executions of a target: how many, how they ended, and the inputs of those that should not.

    In ``folder`` are ``now``, the input that is being read, ``counts.json``, and one file for each
    defect: one for each kind of error and line that raised it, the shortest input that did.
    """

    def __init__(self, folder: Path, prepare: Callable[[Path], Any], executions: int) -> None:
        self._folder, self._last, self.counts = folder, executions, Counter[str]()
        self._found: dict[str, int] = {}
        work = folder / "work"
        work.mkdir(parents=True, exist_ok=True)
        self.fuzzed = prepare(work)
        for seed in self.fuzzed.seeds:
            self.fuzzed.outcome(seed)
        self._is_guarded = False
        self._begun_s = self._noted_s = time.monotonic()

    def guard(self) -> None:
        """End this process if an execution hangs, and refuse it memory without bounds."""
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + MORE_BYTES, most))
        self._is_guarded = True
        self._wait_no_longer()

    def _wait_no_longer(self) -> None:
        # Whoever started this process does not hear from it while it hangs.
        if self._is_guarded:
            faulthandler.dump_traceback_later(LONGEST_S + _NOTED_EACH_S, exit=True)

    def execute(self, data: bytes) -> None:
        """Read one input; no error leaves this."""
        now_s = time.monotonic()
        if now_s - self._noted_s > _NOTED_EACH_S:
            self._noted_s = now_s
            self.note()
            self._wait_no_longer()
        (self._folder / "now").write_bytes(data)
        self.counts["executions"] += 1
        try:
            self.counts[self.fuzzed.outcome(data)] += 1
        except Exception as error:  # noqa: BLE001 - a defect, whatever it is
            self.counts["defects"] += 1
            self._keep(data, error)
        # What begins the executions may also end the process after the last of them.
        if self.counts["executions"] >= self._last:
            self.note()

    def _keep(self, data: bytes, error: Exception) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "/ooc_graph/" in frame.filename] or frames
        where = f"{type(error).__name__}-{Path(own[-1].filename).stem}-{own[-1].lineno}"
        if len(data) < self._found.get(where, 1 << 62):
            self._found[where] = len(data)
            (self._folder / f"defect-{where}").write_bytes(data)
            (self._folder / f"defect-{where}.txt").write_text(
                "".join(traceback.format_exception(error))
            )

    def note(self) -> None:
        """Write the counts."""
        seconds = time.monotonic() - self._begun_s
        facts = {**self.counts, "seconds": seconds, "kinds": sorted(self._found)}
        (self._folder / "counts.json").write_text(json.dumps(facts))


def by_mutations(campaign: Campaign, executions: int, seed: int) -> None:
    """Executions of inputs that are drawn, always the same."""
    draw = random.Random(seed)
    for _ in range(executions):
        campaign.execute(mutated(draw, campaign.fuzzed.seeds))


def by_atheris(
    atheris: ModuleType, campaign: Campaign, executions: int, seed: int, corpus: Path
) -> None:
    """Executions of inputs that reach new lines; what reaches one is kept in ``corpus``."""
    corpus.mkdir(parents=True, exist_ok=True)
    for data in campaign.fuzzed.seeds:
        (corpus / hashlib.sha1(data).hexdigest()).write_bytes(data)
    words = corpus.with_suffix(".words")
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in WORDS if len(word) < 64))
    longest = max(4096, *(2 * len(data) for data in campaign.fuzzed.seeds))
    flags = {
        "runs": executions,
        "seed": seed,
        "max_len": longest,
        "dict": words,
        "timeout": LONGEST_S,
        "rss_limit_mb": 4096,
        "verbosity": 0,
        "reload": 0,
        "artifact_prefix": f"{corpus.parent}/",
    }

    def mutate(data: bytes, most: int, number: int) -> bytes:
        draw = random.Random(number)
        other = other_json(draw, data) if draw.random() < 0.5 else None
        return atheris.Mutate(data, most) if other is None or len(other) > most else other

    atheris.Setup(
        ["fuzz", *(f"-{name}={value}" for name, value in flags.items()), str(corpus)],
        campaign.execute,
        custom_mutator=mutate,
    )
    atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def _uninstrumented() -> list[str]:
    """Modules that numba compiles: it would find atheris's calls in them."""
    found = []
    for path in (ROOT / "ooc_graph").rglob("*.py"):
        text = path.read_text()
        if "numba" in text or "kernels.common.compiled" in text:
            found.append(".".join(path.relative_to(ROOT).with_suffix("").parts))
    return found


def main(name: str, executions: int, seed: int, folder: Path, corpus: Path) -> None:
    """Execute one target; the counts are in the folder, also of a process that is killed."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    atheris = import_module("atheris") if find_spec("atheris") else None
    if atheris is None:
        from tests.fuzz.targets import load_all
    else:
        packages = ["ooc_graph", "json", "tomllib", "zipfile", "gzip", "csv"]
        with atheris.instrument_imports(include=packages, exclude=_uninstrumented()):
            from tests.fuzz.targets import load_all

            prepare = load_all()[name]
    prepare = load_all()[name]
    campaign = Campaign(folder, prepare, executions)
    campaign.guard()
    if atheris is None:
        by_mutations(campaign, executions, seed)
    else:
        by_atheris(atheris, campaign, executions, seed, corpus)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), Path(sys.argv[5]))
