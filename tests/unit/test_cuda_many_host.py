"""What of many sources on CUDA devices runs without one: tiles, reductions, and who does it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.asked import Asked, answer_specs, own_columns
from ooc_graph.answers.many import SourceColumns, SourceRows
from ooc_graph.answers.reduced import SourceParts
from ooc_graph.answers.reductions import Bins
from ooc_graph.errors import InputError, MemoryBudgetError
from ooc_graph.kernels.cuda.many import search_plan as cuda_many
from ooc_graph.kernels.cuda.many.core import SHARED_ROW, TILE_ARCS, tiles_of
from ooc_graph.kernels.cuda.many.prune import fit_floats
from ooc_graph.kernels.cuda.many.search_plan import part_dtype
from ooc_graph.layout.keys import key_for
from ooc_graph.model.request import Job, Many, Request
from ooc_graph.model.resources import CPU, CUDA, Device, Resources
from ooc_graph.runtime.this_process import ThisProcess
from ooc_graph.search import many
from ooc_graph.strategies.many import searches
from ooc_graph.strategies.many.batches import Batches
from ooc_graph.strategies.many.task import Division, ManyTask
from ooc_graph.types import INT64_UNREACHED
from tests.small_pairs import task_of


@pytest.mark.parametrize("seed", range(20))
def test_tiles_hold_whole_rows_or_share_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    longest = int(random.choice([1, 5, 33, 200]))
    counts = random.integers(0, longest + 1, int(random.integers(0, 300))).astype(np.int64)
    tile = tiles_of(counts)
    first = (tile & ~SHARED_ROW).astype(np.int64)
    arcs = int(counts.sum())
    assert first[0] == 0
    assert first[-1] == arcs
    assert not tile[-1] & SHARED_ROW
    lengths = np.diff(first)
    assert ((lengths > 0) & (lengths <= TILE_ARCS)).all()
    row = np.repeat(np.arange(len(counts)), counts)
    tiles_of_row = [set() for _ in counts]
    for number, (begin, end) in enumerate(pairwise(first.tolist())):
        for at in row[begin:end]:
            tiles_of_row[at].add(number)
    for at, numbers in enumerate(tiles_of_row):
        shared = [bool(tile[number] & SHARED_ROW) for number in numbers]
        # A row of several tiles has them for itself, and only such tiles are marked.
        assert all(shared) if counts[at] > TILE_ARCS else not any(shared)
        if counts[at] <= TILE_ARCS:
            assert len(numbers) <= 1


def _parts(answer: np.ndarray, far: Any) -> np.ndarray:
    """What the device would tell of these distances."""
    reached = answer < far
    values = np.where(reached, answer, 0)
    parts = np.zeros(len(answer), part_dtype(answer.dtype))
    parts["reached"], parts["largest"] = reached.sum(axis=1), values.max(axis=1)
    parts["sum"] = values.sum(axis=1, dtype=np.float64)
    if answer.dtype.kind == "i":
        parts["exact"] = values.sum(axis=1)
    return parts


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("aimed", [False, True])
@pytest.mark.parametrize("reduce", ["eccentricity", "sum", "closeness"])
def test_reductions_of_the_device_are_those_of_distances(
    dtype: str, aimed: bool, reduce: str
) -> None:
    random = np.random.default_rng(3)
    # Vertices 4 and 9 have no row.
    internal_of = np.array([3, 0, 1, 2, -1, 4, 5, 6, 7, -1])
    ids = SimpleNamespace(internal_of=internal_of)
    far = INT64_UNREACHED if dtype == "int64" else np.inf
    sources = np.array([0, 4, 5, 9, 2])
    answer = random.integers(1, 9, (3, 8)).astype(dtype)
    answer[random.random(answer.shape) < 0.3] = far
    answer[np.arange(3), internal_of[sources[[0, 2, 4]]]] = 0
    targets = np.array([9, 2, 7, 0]) if aimed else None
    asked = Asked(targets, None, reduce)
    columns = internal_of if targets is None else internal_of[targets]
    counted = answer[:, columns[columns >= 0]]
    expected = SourceRows(answer, sources, ids, asked)  # type: ignore[arg-type]
    found = SourceParts(_parts(counted, far), sources, ids, asked)  # type: ignore[arg-type]
    assert found.reduced(reduce) == expected.reduced(reduce)
    assert found.part(1, 4).reduced(reduce) == expected.part(1, 4).reduced(reduce)


@pytest.mark.parametrize("cutoff", [None, 5, -1])
@pytest.mark.parametrize("aimed", [False, True])
def test_columns_of_the_device_are_those_of_rows(aimed: bool, cutoff: int | None) -> None:
    random = np.random.default_rng(4)
    internal_of = np.array([3, 0, 1, 2, -1, 4, 5, 6, 7, -1])
    ids: Any = SimpleNamespace(internal_of=internal_of)
    sources, far = np.array([0, 4, 5, 9, 2]), INT64_UNREACHED
    answer = random.integers(1, 9, (3, 8))
    answer[random.random(answer.shape) < 0.3] = far
    rows = internal_of[sources[[0, 2, 4]]]
    answer[np.arange(3), rows] = 0
    targets = np.array([9, 2, 7, 0]) if aimed else None
    bins = Bins(4, 2)
    asked = Asked(targets, cutoff, "histogram", bins=bins)
    expected = SourceRows(answer, sources, ids, asked)
    # What the device does: columns in order, the cutoff, and the sources' own.
    places = internal_of if targets is None else internal_of[targets]
    given = np.where(places < 0, far, answer[:, places])
    given[given > (far if cutoff is None else cutoff)] = far
    own = own_columns(sources, asked)
    assert (own >= 0).tolist() == [
        cutoff != -1 and (targets is None or source in targets) for source in sources
    ]
    for row, column in zip(given, own[internal_of[sources] >= 0], strict=True):
        if column >= 0:
            row[column] = 0
    found = SourceColumns(given, sources, ids, asked)
    assert found.width == expected.width
    assert found.whole is None
    for first, last in ((0, 5), (1, 3)):
        parts = found.part(first, last), expected.part(first, last)
        assert [row.tolist() for row in parts[0]] == [row.tolist() for row in parts[1]]
        assert parts[0].reduced("histogram") == parts[1].reduced("histogram")
    assert SourceColumns(given, sources[::2][:2], ids, asked).whole is None
    assert SourceColumns(given, sources[[0, 2, 4]], ids, asked).whole is given
    # With rows of vertices without arcs among them, as the answer has them.
    into = np.full((5, found.width), 77)
    into[[0, 2, 4]] = given
    whole = SourceColumns(into, sources, ids, asked, is_whole=True)
    for threads in (1, 3):
        into[[1, 3]] = 77
        whole.fill_isolated(threads)
        assert whole.whole is into
        assert into.tolist() == [row.tolist() for row in found]
    assert whole.reduced("histogram") == expected.reduced("histogram")
    assert whole.part(1, 4).reduced("histogram") == expected.part(1, 4).reduced("histogram")


def test_a_batch_has_as_many_bytes_in_each_row() -> None:
    for kind, sources in cuda_many.VEC.items():
        assert 32 * sources * int(kind[1]) == cuda_many.BATCH_BYTES


def test_lengths_to_landmarks_are_known_to_be_finite() -> None:
    assert fit_floats(1 << 20, 1.0)
    assert fit_floats(1 << 10, 1e35)
    assert not fit_floats(1 << 10, 1e36)
    assert not fit_floats(1, float(np.finfo(np.float32).max))
    assert not fit_floats(2, 1e300)
    # The worst that rounding up does, in every sum: the bound must be above.
    rows, heaviest = 1 << 16, np.float32(5.1e33)
    length = np.float32(0)
    for _ in range(rows - 1):
        length = np.nextafter(np.float32(length + heaviest), np.float32(np.inf))
    assert 0.9 * np.finfo(np.float32).max < length < np.inf
    assert fit_floats(rows, float(heaviest))
    assert not fit_floats(rows, 1.02 * float(heaviest))


@pytest.mark.parametrize(
    ("dtype", "total", "fits"),
    [
        ("int64", 2**63 - 1, True),
        ("int64", -(2**62) - 7, True),
        ("int64", 2**63, False),
        ("int64", 2**64, False),
        ("int64", 3 * 2**64 + 5, False),
        ("float64", np.inf, False),
        ("float64", np.nan, False),
    ],
)
def test_sums_of_the_device_that_do_not_fit_are_refused(
    dtype: str, total: float, fits: bool
) -> None:
    ids: Any = SimpleNamespace(internal_of=np.array([-1, 0]), original_at=lambda place: 10 + place)
    parts = np.zeros(1, part_dtype(np.dtype(dtype)))
    parts["reached"], parts["sum"] = 8, total
    if dtype == "int64":
        parts["exact"] = (int(total) + 2**63) % 2**64 - 2**63
    found = SourceParts(parts, np.arange(2), ids, Asked(reduce="sum"))
    if fits:
        assert [one.value for one in found.reduced("sum")] == [0, total]
        return
    with pytest.raises(InputError, match=r"the distances from vertex 11 sum up to .* bound of"):
        found.part(1, 2).reduced("sum")
    if dtype == "int64":
        (one,) = found.part(1, 2).reduced("closeness")
        assert one.value == 7 / int(total) * 7
    else:
        with pytest.raises(InputError):
            found.reduced("closeness")


def _offered(least_limit_bytes: int, **offered: Any) -> Resources:
    """What processes with four threads and a device each offer."""
    here = ThisProcess(1 << 50, CUDA).resources(on_cpu=True)
    given = {"device": Device(CUDA, 1 << 50), "threads": 4, **offered}
    return replace(here, least_limit_bytes=least_limit_bytes, **given)


def _divided(
    graph: Any, specs: Any, asked: Asked, resources: Resources, *, in_memory: bool = False
) -> Division:
    """How batches on the device divide the sources."""
    request = Request(asked.kernel, many=Many(specs, asked, in_memory))
    found = Batches(CUDA).reserve(Job(graph, request, resources))
    assert isinstance(found, Division)
    return found


@pytest.fixture
def graph() -> og.Graph:
    at = np.arange(50)
    return og.from_edges(at, at + 1, np.ones(50, np.float32))


@pytest.mark.parametrize("reduce", ["sum", "closeness"])
def test_sums_that_float64_does_not_hold_are_made_of_distances(
    reduce: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some sources' sums on the device are beyond float64, and one is of no number."""
    monkeypatch.setattr(searches, "BEYOND", 2)
    internal_of = np.array([3, 0, -1, 1, 2])
    ids: Any = SimpleNamespace(internal_of=internal_of, original_at=lambda place: place)
    places, most = np.array([4, 2, 0, 1, 3]), np.finfo(np.float64).max
    answer = np.array(
        [
            [1.0, most / 2, 0.0, most / 2],
            [most, -most, 5.0, 0.0],
            [0.0, 3.0, np.inf, 8.0],
            [most, 0.0, -most, 2.0],
        ]
    )
    if reduce == "closeness":
        answer[0], answer[1] = [most, most, 0.0, most / 2], [most, most, most / 2, 0.0]
    asked = Asked(reduce=reduce)
    expected = SourceRows(answer, places, ids, asked).reduced(reduce)
    found = searches.Searches(
        _task(asked), _Search(answer, internal_of[places]), ids, places
    ).in_memory()
    assert isinstance(found, SourceParts)
    assert found.reduced(reduce) == expected
    assert found.part(1, 4).reduced(reduce) == expected[1:4]
    assert not any(np.isinf(one.value) for one in expected)


@pytest.mark.parametrize("aimed", [False, True])
def test_distances_go_where_the_answer_has_room(aimed: bool) -> None:
    """Those of sources without arcs, too: vertices 2 and 5, the one among the targets."""
    internal_of = np.array([3, 0, -1, 1, 2, -1])
    ids: Any = SimpleNamespace(internal_of=internal_of)
    places = np.array([4, 2, 0, 5, 2, 3])
    answer = np.random.default_rng(5).integers(1, 9, (3, 4)).astype(np.float64)
    answer[np.arange(3), internal_of[places[[0, 2, 5]]]] = 0
    asked = Asked(np.array([3, 2, 0, 4]) if aimed else None)
    expected = np.array([row.copy() for row in SourceRows(answer, places, ids, asked)])
    search, into = _Search(answer, internal_of[places]), np.full(expected.shape, np.nan)
    rows = searches.Searches(_task(asked), search, ids, places, into=into).in_memory()
    assert isinstance(rows, SourceColumns)
    assert rows.whole is into
    assert into.tolist() == expected.tolist()


class _Search:
    """A device's search whose distances are known."""

    def __init__(self, answer: np.ndarray, sources: np.ndarray) -> None:
        self.dtype = answer.dtype
        self._rows = dict(zip(sources[sources >= 0].tolist(), answer, strict=True))

    def expect(self, *_: int) -> None:
        """The same of all."""

    def run_columns(
        self,
        sources: Any,
        targets: Any,
        own: Any,
        most: Any,
        *,
        answer: Any,
        on_done: Any,
        at: Any = None,
    ) -> np.ndarray:
        assert most is None
        assert on_done is None
        assert at is not None or len(sources) == len(answer) <= 2
        found = np.where(targets < 0, np.inf, self._of(sources)[:, targets])
        assert (found[np.arange(len(own)), own] == 0).all()
        answer[slice(None) if at is None else at] = found
        return answer

    def reduce(self, sources: Any, targets: Any, own: Any, most: Any) -> np.ndarray:
        del own, most
        with np.errstate(over="ignore"):
            parts = _parts(self._of(sources)[:, targets[targets >= 0]], np.inf)
        # In whatever order the device adds up: as soon as a part is beyond, all is.
        large = np.abs(self._of(sources)).max(axis=1, initial=0, where=self._of(sources) < np.inf)
        parts["sum"][large > 1e300] = np.inf
        parts["sum"][1:2][large[1:2] > 1e300] = np.nan
        return parts

    def _of(self, sources: Any) -> np.ndarray:
        return np.array([self._rows[source] for source in sources.tolist()])


def _task(asked: Asked) -> ManyTask:
    specs = answer_specs(asked, 5, 5, np.dtype(np.float64))
    return task_of(asked, specs, CUDA)


def test_tasks_of_a_device_fit_host_memory(graph: og.Graph) -> None:
    specs = answer_specs(Asked(), 1 << 14, 1 << 12, np.dtype(np.float32))
    given = graph, specs, Asked()
    # Four tasks whose sources have 16 KiB each, beside 128 MiB for pieces on their way.
    limits = (1 << 30, 300 << 20, 170 << 20)
    # Chunks of 64 sources.
    assert [_divided(*given, _offered(limit)).chunks for limit in limits] == [128, 32, 8]
    # An answer of 256 MiB is written at once, however many sources a task has.
    for limit in (1 << 30, 385 << 20):
        assert _divided(*given, _offered(limit), in_memory=True).chunks == 128
    with pytest.raises(MemoryBudgetError):
        _divided(*given, _offered(384 << 20), in_memory=True)


@pytest.mark.parametrize("sources", [4_096, 8_000, 20_000, 1_000_000])
@pytest.mark.parametrize("processes", [1, 2, 8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_device_has_sources(
    graph: og.Graph, sources: int, processes: int, dtype: str
) -> None:
    # Chunks of 16 sources, or 8.
    specs = answer_specs(Asked(), sources, 1 << 18, np.dtype(dtype))
    plan = _divided(graph, specs, Asked(), _offered(1 << 50, processes=processes))
    of_a_task = plan.chunks * specs[0].chunk
    tasks = -(-sources // of_a_task)
    assert of_a_task <= 8_192
    if processes == 1:
        assert tasks == -(-sources // 8_192)
        return
    assert tasks >= processes
    # Whole batches, and where there are many of them, enough for the last ones to be dealt evenly.
    assert of_a_task % (512 // specs[0].dtype.itemsize) == 0
    if sources == 1_000_000:
        assert tasks >= 4 * processes


@pytest.mark.parametrize("processes", [1, 4])
@pytest.mark.parametrize(
    ("dtype", "edges", "sources"),
    [
        ("float32", 1 << 24, 8192),
        # Whole batches of 128 or 64 sources that four seconds do for at 1,000 GTEPS.
        ("float32", 10**9, 31 * 128),
        ("float64", 10**9, 62 * 64),
        # Eight crews of blocks have a batch each.
        ("float32", 10**11, 8 * 128),
        ("int64", 10**11, 8 * 64),
    ],
)
def test_tasks_of_a_device_end_after_some_seconds(
    dtype: str, edges: int, sources: int, processes: int
) -> None:
    held: Any = SimpleNamespace(
        path="g", rows=1 << 20, vertices=1 << 20, stored_arcs=2 * edges, has_negative_weights=False
    )
    held.resident_bytes = lambda _: 0
    asked = Asked(reduce="sum")
    specs = answer_specs(asked, 1 << 20, 1 << 20, np.dtype(dtype))
    plan = _divided(held, specs, asked, _offered(1 << 50, processes=processes))
    assert plan.chunks * specs[0].chunk == sources


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("reduce", [None, "eccentricity", "histogram", "closeness", "sum"])
def test_what_has_the_same_bytes_is_gone_on_with_on_either_device(
    dtype: str, reduce: str | None
) -> None:
    asked, sources = Asked(reduce=reduce, bins=Bins(4, 2)), np.arange(10)
    specs = answer_specs(asked, len(sources), 10, np.dtype(dtype))
    graph: Any = SimpleNamespace(content_sha256="")
    tasks = [task_of(asked, specs, device) for device in (CPU, CUDA)]
    keys = {key_for(many._begun_with(graph, task, sources)) for task in tasks}
    is_rounded = dtype != "int64" and reduce in ("closeness", "sum")
    assert len(keys) == (2 if is_rounded else 1)


@pytest.mark.parametrize(
    ("asked", "rows", "limit_gib", "sources"),
    [
        # What the device reduces needs a few bytes a source.
        (Asked(reduce="sum"), 1 << 20, 4, 8192),
        (Asked(reduce="closeness"), 1 << 20, 4, 8192),
        (Asked(reduce="eccentricity"), 1 << 20, 4, 8192),
        # Columns are there for vertices without rows, too; nothing else is.
        (Asked(reduce="histogram", bins=Bins(64, 1)), 1000, 40, 2048),
        (Asked(), 1000, 40, 2048),
        (Asked(), 1 << 20, 40, 2048),
        # Distances and parents by internal id.
        (Asked(parents=True), 1 << 20, 72, 2048),
    ],
)
def test_memory_of_tasks_is_what_the_device_gives(
    asked: Asked, rows: int, limit_gib: int, sources: int
) -> None:
    held: Any = SimpleNamespace(
        path="g", rows=rows, vertices=1 << 20, stored_arcs=1 << 24, has_negative_weights=False
    )
    held.resident_bytes = lambda _: 8 << 24
    # Four threads; of float32 distances a source has 4 MiB.
    specs = answer_specs(asked, 1 << 20, 1 << 20, np.dtype(np.float32))
    plan = _divided(held, specs, asked, _offered(limit_gib << 30))
    assert plan.chunks * specs[0].chunk == sources
