"""Chunks of a task are recorded as its batches end, also out of the store and on a device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.asked import answer_specs
from ooc_graph.errors import MemoryBudgetError, UnexpectedError
from ooc_graph.kernels.cpu.store import johnson as tier_johnson
from ooc_graph.kernels.cpu.store import one_by_one as tier_singly
from ooc_graph.layout.stored import Stored
from ooc_graph.runtime import engine_cache, process, this_process
from ooc_graph.search import many
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.many import dividing, on_disk, one_by_one, searches
from ooc_graph.strategies.many import recording as many_recording
from ooc_graph.strategies.many import task as many_task
from tests import made_up_device
from tests.made_up_device import BATCHES, FIND, MadeUp, Single
from tests.said import Said
from tests.test_pairs_recorded import Finished, recorded
from tests.test_pairs_stored import no_room

hubs, signed, device = made_up_device.hubs, made_up_device.signed, made_up_device.device

CHUNK, BATCH, CHUNKS = 8, 16, 10
"""Sources of a chunk and of a batch, and chunks of a task."""
SOURCES = 100
STORED, SINGLY = "store", "one by one"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Chunks and batches of few sources, tasks of many chunks."""

    def specs(*given: Any) -> Any:
        return tuple(replace(spec, chunk_rows=CHUNK) for spec in answer_specs(*given))

    def size_of(*given: Any, **named: Any) -> Any:
        return plain(*given, **named)._replace(chunks=CHUNKS)

    plain = on_disk.size_of
    engine_cache.release()
    monkeypatch.setattr(many, "answer_specs", specs)
    monkeypatch.setattr(on_disk, "BATCH_SIZES", (BATCH,))
    for module in (on_disk, one_by_one):
        monkeypatch.setattr(module, "size_of", size_of)
    monkeypatch.setattr(dividing, "CUDA_SOURCES", (CHUNK * CHUNKS,))
    monkeypatch.setattr(dividing, "CUDA_BATCH_BYTES", BATCH * 8)
    for module in (searches, many_task):
        monkeypatch.setattr(module, "BLOCK_GROUPS", 1)
    # Tasks one after the other.
    monkeypatch.setattr(this_process, "cores", lambda: 1)
    monkeypatch.setattr(process, "cores", lambda: 1)
    monkeypatch.setattr(process, "_devices", {})
    yield
    engine_cache.release()


class Searched:
    """Calls ``before`` with the number of sources so far, whenever some are about to be searched.

    The batches of a device, its searches one by one, and those out of the store.
    """

    def __init__(self, made_up: MadeUp, before: Callable[[str, int], None]) -> None:
        self.places: list[int] = []
        self._before, self._made_up = before, made_up

    @contextmanager
    def heard(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self._made_up, "use", self._use)
            settle, run = tier_johnson.TierJohnson._settle, tier_singly.TierSingly._find

            def settled(search: Any, state: Any, batch: Any) -> Any:
                self._use(STORED, *batch.tolist())
                return settle(search, state, batch)

            def singly(search: Any, sources: Any, *rest: Any) -> Any:
                single = search.search
                if not isinstance(single, Single):
                    noted = _Told(single, partial(self._use, STORED))
                    search = replace(search, search=noted)
                run(search, sources, *rest)

            patch.setattr(tier_johnson.TierJohnson, "_settle", settled)
            patch.setattr(tier_singly.TierSingly, "_find", singly)
            yield

    def _use(self, kind: str, *sources: int) -> None:
        if sources:
            self._before(kind, len(self.places))
            self.places += sources


class _Told:
    """A search from one source that says which before."""

    def __init__(self, search: Any, before: Callable[[int], None]) -> None:
        self._search, self._before = search, before

    def run(self, root: int) -> Any:
        self._before(root)
        return self._search.run(root)


KINDS: list[tuple[str, str, str, dict[str, Any]]] = [
    (where, kind, find, options)
    for where in (STORED, BATCHES, SINGLY)
    for kind, find, options in (
        ("hubs", "apsp", {}),
        ("hubs", "apsp", {"parents": True}),
        ("hubs", "apsp", {"reduce": "sum"}),
        ("hubs", "apsp", {"reduce": "histogram", "bins": 5, "bin_width": 0.2}),
        ("hubs", "bfs", {}),
        ("hubs", "bfs", {"reduce": "closeness"}),
        ("signed", "apsp", {}),
        ("signed", "apsp", {"parents": True}),
        ("signed", "apsp", {"reduce": "eccentricity"}),
    )
]


@pytest.fixture
def graph(request: pytest.FixtureRequest) -> Callable[[str], og.Graph]:
    return request.getfixturevalue


@contextmanager
def searching(device: MadeUp, graph: og.Graph, where: str, find: str, **options: Any) -> Any:
    """How to search from some sources, many of which have no arcs."""
    sources = graph.original_ids()[:SOURCES]
    search = partial(FIND[find], graph, sources, **options)
    device.part = BATCH
    if where == STORED:
        with no_room():
            yield partial(search, device="cpu")
        return
    with pytest.MonkeyPatch.context() as patch:
        if where == SINGLY:
            plain = cuda_memory.cuda_bytes
            many = "apsp", "multi_source_bfs"
            patch.setattr(
                cuda_memory, "cuda_bytes", lambda *g: 1 << 50 if g[1] in many else plain(*g)
            )
        yield partial(search, device="cuda")


def internal(graph: og.Graph, chunks: set[int]) -> list[int]:
    """Ids of the sources of some chunks that have arcs."""
    places = np.array([n for c in chunks for n in range(c * CHUNK, (c + 1) * CHUNK)], np.int64)
    found = graph.internal_of()[places[places < SOURCES]]
    return sorted(found[found >= 0].tolist())


@pytest.mark.parametrize(("where", "kind", "find", "options"), KINDS, ids=str)
def test_a_run_that_ends_in_the_middle_of_a_task_goes_on_there(
    graph: Any,
    device: MadeUp,
    tmp_path: Path,
    where: str,
    kind: str,
    find: str,
    options: dict[str, Any],
) -> None:
    held, out = graph(kind), tmp_path / "d.zarr"
    with searching(device, held, where, find, **options) as search:
        search(out=tmp_path / "whole.zarr")

        def stop(_: str, count: int) -> None:
            if count > 2 * BATCH:
                # So much is recorded while its task is searched.
                finished.wait_for(3)
                raise RuntimeError("stopped")

        with pytest.MonkeyPatch.context() as patch:
            finished, first = Finished(patch), Searched(device, stop)
            with first.heard(), pytest.raises(UnexpectedError, match="stopped"):
                search(out=out)
        kept = recorded(tmp_path)
        assert kept == set(finished.numbers)
        assert 3 <= len(kept) < CHUNKS
        assert not [thread for thread in threading.enumerate() if "record" in thread.name]
        assert many_recording._unrecorded._count == 0

        again = Searched(device, lambda *_: None)
        with pytest.MonkeyPatch.context() as patch, again.heard():
            rest = Finished(patch)
            search(out=out)
    every = set(range(-(-SOURCES // CHUNK)))
    assert sorted(rest.numbers) == sorted(every - kept)
    assert sorted(again.places) == internal(held, every - kept)
    assert Stored.open(out).identity == Stored.open(tmp_path / "whole.zarr").identity


@pytest.mark.parametrize("options", [{}, {"parents": True}, {"reduce": "sum"}], ids=str)
def test_what_batches_found_before_they_were_refused_memory_stays(
    hubs: og.Graph, device: MadeUp, tmp_path: Path, options: dict[str, Any]
) -> None:
    """But for sums of floats, whose last bits are not those of searches one by one."""
    sources, out, said = hubs.original_ids()[:SOURCES], tmp_path / "d.zarr", Said()
    search = partial(og.johnson, hubs, sources, **options)
    search(out=tmp_path / "whole.zarr", device="cpu")
    device.part = BATCH
    singly: list[int] = []

    def refuse(kind: str, count: int) -> None:
        if kind != BATCHES:
            singly.append(count)
        elif count > 2 * BATCH:
            finished.wait_for(3)
            raise MemoryBudgetError("the batch does not fit the device")

    with pytest.MonkeyPatch.context() as patch:
        finished, searched = Finished(patch), Searched(device, refuse)
        with searched.heard():
            search(out=out, device="cuda", progress=said)
    kept = finished.numbers[: len(finished.numbers) - -(-SOURCES // CHUNK)]
    again = searched.places[singly[0] :]
    every = set(range(-(-SOURCES // CHUNK)))
    if options.get("reduce") == "sum":
        assert len(kept) >= 3
        assert sorted(again) == internal(hubs, every)
    else:
        assert not kept
        gone_on = [note for note in said.notes if note.startswith("going on with")]
        count = int(gone_on[0].split()[3])
        assert 3 <= count < CHUNKS
        assert sorted(again) == internal(hubs, every - set(finished.numbers[:count]))
    assert Stored.open(out).identity == Stored.open(tmp_path / "whole.zarr").identity


def test_threads_that_are_refused_are_refused_memory(
    hubs: og.Graph, device: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the device's: that of this process, of which smaller tasks need less."""
    sources, said = hubs.original_ids()[:SOURCES], Said()
    og.johnson(hubs, sources, out=tmp_path / "whole.zarr", device="cpu")
    engine_cache.release()
    device.part, refused = BATCH, []
    monkeypatch.setattr(dividing, "CUDA_SOURCES", (CHUNK * CHUNKS, CHUNK))
    monkeypatch.setattr("ooc_graph.strategies.many.memory.STAGED_BYTES", 0)

    def submit(pool: Any, *given: Any) -> Any:
        if pool._thread_name_prefix == "ooc-graph-record" and not refused:
            refused.append(given)
            raise MemoryError("the system starts no further thread")
        return real(pool, *given)

    real = many_recording.Threads.submit
    monkeypatch.setattr(many_recording.Threads, "submit", submit)
    og.johnson(hubs, sources, out=tmp_path / "d.zarr", device="cuda", progress=said)
    assert refused
    assert many_recording._unrecorded._count == 0
    how = "host memory was refused: apsp goes on in batches"
    assert any(note.startswith(how) for note in said.notes)
    assert set(device.used) == {BATCHES}
    found, whole = (Stored.open(tmp_path / f"{name}.zarr") for name in ("d", "whole"))
    assert found.identity == whole.identity
