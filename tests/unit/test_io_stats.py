"""How reading went beside a search: seconds by a clock that the tests turn."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ooc_graph.errors import CorruptStoreError
from ooc_graph.graph500 import tiers
from ooc_graph.graph500.tiers import Probe, probe_disk
from ooc_graph.layout import names
from ooc_graph.layout.chunks import write_chunk
from ooc_graph.layout.commit import partial_store
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu import columns
from ooc_graph.memory.cpu.disk import DiskBlocks
from ooc_graph.memory.io_stats import IoStats, Meter
from ooc_graph.strategies.cpu import on_disk as cpu_disk

PATIENCE_S = 120
UNIT = names.SIDECAR_BYTES


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Seen(Meter):
    """Tells when the search waits."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.waits = threading.Event()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        with super().waiting():
            self.waits.set()
            yield
            self.waits.clear()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One array of neighbours, eight units and a piece."""
    path = tmp_path_factory.mktemp("stores") / "s.zarr"
    values = np.arange(8 * UNIT // 4 + 100, dtype=np.uint32)
    name = "shards/00000/out/hub/neighbors"
    with partial_store(path, "graph", overwrite=False) as partial:
        spec = ArraySpec(name, len(values), values.dtype)
        entry = write_chunk(partial.folder, spec, 0, [values])
        partial.commit("graph", {}, [spec], [entry])
    return path


def units_of(store: Path, meter: Meter, **options: Any) -> DiskBlocks:
    array = "shards/00000/out/hub/neighbors"
    wanted = {"batch_blocks": 8, "readers": 1, **options}
    return DiskBlocks(Stored.open(store), [[array]], np.zeros(1, np.int64), meter=meter, **wanted)


BATCHES = [[0, 1, 2], [5], [6, 7, 8]]


@contextmanager
def slow_reads(monkeypatch: pytest.MonkeyPatch, clock: Clock, before: Any) -> Iterator[list[int]]:
    """Each request takes a second; ``before(number)`` is called first."""
    read, sizes = columns.LastFile.read, []

    def slow(last: columns.LastFile, path: Path, offset: int, buffer: memoryview) -> int:
        before(len(sizes))
        clock.now_s += 1
        sizes.append(len(buffer))
        return read(last, path, offset, buffer)

    with monkeypatch.context() as patch:
        patch.setattr(columns.LastFile, "read", slow)
        yield sizes


def batches() -> Iterator[list[Any]]:
    return iter([[np.array(units)] for units in BATCHES])


def test_a_search_that_only_waits_overlaps_nothing(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    meter = Seen(clock)
    units = units_of(store, meter)

    def once_it_waits(_: int) -> None:
        assert meter.waits.wait(PATIENCE_S)

    with slow_reads(monkeypatch, clock, once_it_waits):
        for _ in units.stage(batches()):
            pass
    io_stats = units.io_stats
    assert (io_stats.reading_s, io_stats.waited_s) == (3.0, 3.0)
    assert io_stats.overlap == 0
    # Three units, one, and three, of a second each.
    assert (io_stats.block_s, io_stats.blocks_in_flight) == (7.0, pytest.approx(7 / 3))
    assert io_stats.bytes == 6 * UNIT + 400
    assert io_stats.bytes_s == io_stats.bytes / 3
    units.close()


def test_reading_ahead_is_overlap(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    meter = Seen(clock)
    units = units_of(store, meter)
    done = [threading.Event() for _ in BATCHES]

    def first_once_it_waits(number: int) -> None:
        assert number > 0 or meter.waits.wait(PATIENCE_S)

    with slow_reads(monkeypatch, clock, first_once_it_waits):
        read = units._read

        def told(share: int, reads: Any) -> None:
            read(share, reads)
            next(event for event in done if not event.is_set()).set()

        monkeypatch.setattr(units, "_read", told)
        for number, _ in enumerate(units.stage(batches())):
            # Work that takes longer than reading: the next batch is there before it ends.
            if number + 1 < len(BATCHES):
                assert done[number + 1].wait(PATIENCE_S)
    io_stats = units.io_stats
    assert (io_stats.reading_s, io_stats.waited_s) == (3.0, 1.0)
    assert io_stats.overlap == pytest.approx(2 / 3)
    units.close()


def test_units_that_are_kept_take_no_time(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    units = units_of(store, Meter(clock), kept_bytes=16 * UNIT)
    units.keeping = True
    with slow_reads(monkeypatch, clock, lambda _: None):
        for _ in range(2):
            before = units.io_stats
            for _ in units.stage(batches()):
                pass
    again = units.io_stats.since(before)
    assert (again.blocks, again.bytes, again.reading_s) == (0, 0, 0)
    assert again.overlap is again.blocks_in_flight is again.bytes_s is None
    assert (again.kept_blocks, again.kept_bytes) == (7, 7 * UNIT)
    units.close()


def test_a_read_that_fails_is_measured_too(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    units = units_of(store, Meter(clock))

    def missing(_: int) -> None:
        clock.now_s += 4
        raise FileNotFoundError

    with (
        slow_reads(monkeypatch, clock, missing),
        pytest.raises(CorruptStoreError, match="is missing"),
    ):
        list(units.stage(batches()))
    assert units.io_stats.reading_s == 4
    assert units.io_stats.bytes == 0
    # And nothing seems to be read from then on.
    clock.now_s += 100
    for _ in units.stage(batches()):
        clock.now_s += 0
    assert units.io_stats.reading_s == 4
    units.close()


def test_threads_that_read_at_once_share_the_time() -> None:
    clock = Clock()
    meter = Meter(clock)
    with meter.reading(4):
        clock.now_s = 1
        with meter.reading(2):
            clock.now_s = 3
        clock.now_s = 6
    clock.now_s = 10
    with meter.reading(1):
        clock.now_s = 12
    io_stats = meter.added_to(IoStats(blocks=7, bytes=80))
    assert (io_stats.reading_s, io_stats.block_s) == (8.0, 4 * 6 + 2 * 2 + 2.0)
    assert (io_stats.blocks_in_flight, io_stats.bytes_s) == (30 / 8, 10.0)
    assert io_stats.overlap == 1


def test_what_was_moved_adds_up() -> None:
    one = IoStats(2, 20, 1, 1, 5, 1.0, 3.0, 0.25)
    two = IoStats(3, 30, 2, 2, 6, 3.0, 5.0, 0.75)
    both = one.plus(two)
    assert both == IoStats(5, 50, 3, 3, 11, 4.0, 8.0, 1.0)
    assert both.since(one) == two
    assert both.overlap == 0.75
    # A search is said to wait for no more than was read, whatever a thread's start takes.
    assert IoStats(reading_s=1.0, waited_s=1.5).overlap == 0


def test_it_is_said_in_a_line_and_in_a_table() -> None:
    io_stats = IoStats(10, 5_000_000, 4, 3, 8, 0.5, 2.0, 0.125)
    assert cpu_disk.how_read(io_stats) == (
        "read 5,000,000 bytes of the store for 8 rows in 0.5 s of reading, 10 MB/s with 4.0 blocks "
        "in flight; in 75 % of that time the search went on"
    )
    assert cpu_disk.how_read(IoStats()) == "read 0 bytes of the store for 0 rows"
    facts = tiers.describe_io(io_stats)
    assert facts["seconds that searches waited for it"] == 0.125
    assert facts["share of reading time in which searches went on"] == 0.75
    assert facts["blocks in flight, on average"] == 4.0
    assert facts["bytes given again from memory"] == 4 * UNIT
    assert facts["bytes read a second of reading"] == 1e7
    assert tiers.describe_io(IoStats())["blocks in flight, on average"] is None


def test_the_disk_is_probed_by_the_store_s_own_chunks(store: Path) -> None:
    clock = Clock()

    def ticking() -> float:
        clock.now_s += 2
        return clock.now_s

    chunk = next(store.glob("shards/*/*/*/neighbors/c/*"))
    content = chunk.read_bytes()
    whole = probe_disk(store, clock=ticking)
    assert (whole.bytes, whole.seconds) == (len(content), 2.0)
    assert whole.bytes_s == len(content) / 2
    assert whole.cached_bytes is None or 0 <= whole.cached_bytes <= whole.bytes
    assert probe_disk(store, 100_000).bytes == 100_000
    assert chunk.read_bytes() == content


def test_a_probe_says_what_it_is_worth(tmp_path: Path) -> None:
    assert Probe(100, 1.0, 51).is_cached
    assert Probe(100, 1.0, 50).is_cached is False
    assert Probe(100, 1.0, None).is_cached is None
    facts = tiers.describe_probe(Probe(1000, 2.0, 0), 125.0)
    assert facts == {
        "disk: bytes read in sequence": 1000,
        "disk: bytes a second in sequence": 500.0,
        "disk: had the page cache most of that": False,
        "share of the disk's rate in sequence": 0.25,
    }
    assert tiers.describe_probe(Probe(1000, 2.0, 0), None)[list(facts)[-1]] is None
    # A graph without arcs has no chunks.
    empty = probe_disk(tmp_path)
    assert (empty.bytes, empty.bytes_s) == (0, None)
    assert tiers.describe_probe(empty, 1.0)[list(facts)[-1]] is None


class Odd(BaseException):
    pass


def test_whatever_a_reader_raises_reaches_the_search_and_ends_no_reader(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int) -> None:
        if number == 1:
            raise Odd

    clock = Clock()
    units = units_of(store, Meter(clock))
    with slow_reads(monkeypatch, clock, fail), pytest.raises(Odd):
        for _ in units.stage(batches()):
            pass
    firsts = [int(staged[0]) for (staged,) in units.stage(batches())]
    assert firsts == [unit[0] * UNIT // 4 for unit in BATCHES]
    units.close()
