"""What checksums, manifests, fsync, checkpoints and events cost a job.

    python benchmarks/safety.py [--scale 22] [--searches 8] [--folder DIR]

A job builds a graph, searches it by BFS and SSSP, and writes the answers, in one process. Functions
of each kind are timed on the thread that calls them, without what they call of other kinds. Shares
are of the seconds of the job, and of the processor time of all its threads. Threads work side by
side, so a share of the seconds is the most that the job could gain without them, not less.
"""

import hashlib
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter, process_time, thread_time
from typing import Any

import google_crc32c
from harness.program import Program, load_average

from ooc_graph.jobs import folder as run_folder
from ooc_graph.jobs.driver import run_job
from ooc_graph.jobs.reading import read_job
from ooc_graph.layout import checkpoints, chunks, commit, digests
from ooc_graph.types import NoProgress

CHECKSUMS, MANIFESTS, FSYNC = "checksums", "manifests", "fsync"
CHECKPOINTS, EVENTS = "checkpoints", "events"
KINDS = CHECKSUMS, MANIFESTS, FSYNC, CHECKPOINTS, EVENTS
JOB = """
[source]
kind = "kronecker"
scale = {scale}
weighted = true

[build]
shards = 8

[[stage]]
kind = "bfs"
keys = {searches}

[[stage]]
kind = "sssp"
keys = {searches}
"""


class Clock:
    """Seconds, and processor seconds, by kind of work, of all threads."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.processor_s: dict[str, float] = defaultdict(float)
        self._own = threading.local()
        self._adding = threading.Lock()

    @contextmanager
    def counting(self, kind: str) -> Iterator[None]:
        """Count what is done in this context, except for what other contexts in it count."""
        own = self._own
        outer, own.within = getattr(own, "within", (0.0, 0.0)), (0.0, 0.0)
        begun, begun_processor = perf_counter(), thread_time()
        try:
            yield
        finally:
            took_processor, took = thread_time() - begun_processor, perf_counter() - begun
            with self._adding:
                self.seconds[kind] += took - own.within[0]
                self.processor_s[kind] += took_processor - own.within[1]
            own.within = outer[0] + took, outer[1] + took_processor

    def timed(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, counted."""

        def call(*arguments: Any, **named: Any) -> Any:
            with self.counting(kind):
                return function(*arguments, **named)

        return call


class Counted:
    """A hash function of `hashlib`'s kind, counted."""

    def __init__(self, clock: Clock, function: Callable[[], Any], content: Any = b"") -> None:
        self._clock, self._digest = clock, function()
        self.update(content)

    def update(self, content: Any) -> None:
        with self._clock.counting(CHECKSUMS):
            self._digest.update(content)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


COUNTED: list[tuple[str, Any, tuple[str, ...]]] = [
    (CHECKSUMS, google_crc32c, ("extend", "value")),
    (CHECKSUMS, chunks, ("crc_of_blocks",)),
    (FSYNC, os, ("fsync", "fdatasync")),
    (MANIFESTS, commit.Partial, ("_write_documents", "_write_sidecars")),
    (MANIFESTS, commit.Manifest, ("encode",)),
    (MANIFESTS, commit, ("write_durably", "sync_folders")),
    (MANIFESTS, run_folder.Run, ("write_text",)),
    (CHECKPOINTS, checkpoints, ("_record", "_move", "_is_there")),
    (CHECKPOINTS, checkpoints.Checkpoints, ("__init__",)),
    (EVENTS, run_folder, ("append_line",)),
]


def count_with(clock: Clock) -> None:
    """Have functions of each kind counted from now on."""
    for kind, owner, names in COUNTED:
        for name in names:
            setattr(owner, name, clock.timed(kind, getattr(owner, name)))
    for name, function in digests.FUNCTIONS.items():
        digests.FUNCTIONS[name] = partial(Counted, clock, function)
    hashlib.sha256 = partial(Counted, clock, hashlib.sha256)  # type: ignore[assignment]


def main() -> None:
    program = Program("safety", __doc__, scale=22, searches=8, folder=None)
    options = program.parse()
    clock = Clock()
    with program.scratch() as folder:
        file = folder / "job.toml"
        for number, scale in enumerate((10, options.scale)):
            file.write_text(JOB.format(scale=scale, searches=options.searches))
            if number:  # the first job compiled
                count_with(clock)
            begun, begun_processor = perf_counter(), process_time()
            run_job(read_job(file), folder / f"run-{scale}", NoProgress(), print)
            took_processor, took = process_time() - begun_processor, perf_counter() - begun
    figures: dict[str, Any] = {"job_s": took, "job_processor_s": took_processor}
    for kind in KINDS:
        seconds, processor_s = clock.seconds[kind], clock.processor_s[kind]
        figures |= {f"{kind}_s": seconds, f"{kind}_share": seconds / took}
        figures |= {f"{kind}_processor_s": processor_s}
        figures |= {f"{kind}_processor_share": processor_s / took_processor}
    figures |= load_average()
    program.record(program.given("scale", "searches"), figures)


if __name__ == "__main__":
    main()
