"""`ooc_graph.csgraph` gives what `scipy.sparse.csgraph` gives."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

scipys = pytest.importorskip(
    "scipy.sparse.csgraph", reason="ooc_graph.csgraph has SciPy's signatures"
)
from scipy import sparse  # noqa: E402

from ooc_graph import csgraph as ours  # noqa: E402
from ooc_graph import from_edges, sssp  # noqa: E402
from ooc_graph.csgraph import found as found_module  # noqa: E402
from ooc_graph.csgraph import matrices  # noqa: E402
from ooc_graph.kernels.common.bitmap import WORD_BITS  # noqa: E402
from ooc_graph.kernels.common.team import Team  # noqa: E402
from ooc_graph.kernels.cpu.csr.distances import NearestSearch  # noqa: E402
from ooc_graph.kernels.cpu.csr.order import breadth_first  # noqa: E402
from ooc_graph.kernels.cpu.csr.symmetry import is_symmetric  # noqa: E402
from ooc_graph.kernels.cpu.csr.wide import CHUNK_WORDS  # noqa: E402
from ooc_graph.runtime import engine_cache  # noqa: E402
from tests.unit.test_docs import ROOT, blocks  # noqa: E402

GRAPHS = {"sparse": (300, 0.01), "dense": (200, 0.3), "pieces": (400, 0.002)}


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices, "SMALL_ARCS", 0)
    monkeypatch.setattr(found_module, "FEW_SOURCES", 8)


def graph_of(kind: str, *, integers: bool = False) -> Any:
    vertices, density = GRAPHS[kind]
    matrix = sparse.random_array(
        (vertices, vertices), density=density, format="csr", rng=np.random.default_rng(7)
    )
    if integers:
        # Some are 0, and distances are often equal.
        matrix.data = np.floor(matrix.data * 4)
    return matrix


def assert_same(mine: Any, others: Any) -> None:
    if isinstance(others, tuple):
        assert len(mine) == len(others)
        for one, other in zip(mine, others, strict=True):
            assert_same(one, other)
        return
    mine, others = np.asarray(mine), np.asarray(others)
    assert (mine.shape, mine.dtype) == (others.shape, others.dtype)
    np.testing.assert_array_equal(mine, others)


def assert_is_tree(matrix: Any, distance: Any, predecessor: Any, source: int) -> None:
    """Every vertex that is reached has a shortest path by its predecessors."""
    assert predecessor.dtype == np.int32
    has_one = predecessor != -9999
    reached = np.isfinite(distance)
    reached[source] = False
    np.testing.assert_array_equal(has_one, reached)
    arcs = {(u, v): w for u, v, w in zip(*sparse.find(matrix), strict=True)}
    for vertex in np.flatnonzero(has_one):
        above = predecessor[vertex]
        weight = arcs.get((above, vertex), 0.0)
        assert distance[above] + weight == distance[vertex]
        steps = 0
        while above != source:
            above, steps = predecessor[above], steps + 1
            assert steps < len(distance)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("kind", GRAPHS)
def test_orders_and_components_are_scipys(kind: str, directed: bool) -> None:
    matrix = graph_of(kind)
    for start in (0, 3):
        given = matrix, start, directed
        assert_same(ours.breadth_first_order(*given), scipys.breadth_first_order(*given))
        mine, others = ours.breadth_first_tree(*given), scipys.breadth_first_tree(*given)
        assert type(mine) is type(others)
        # Its rows have the order of the search, SciPy's are in no order.
        assert_same(mine.sorted_indices().indices, others.sorted_indices().indices)
        assert_same(mine.sorted_indices().data, others.sorted_indices().data)
        assert_same(mine.indptr, others.indptr)
    for connection in ("weak", "strong"):
        mine = ours.connected_components(matrix, directed, connection)
        assert_same(mine, scipys.connected_components(matrix, directed, connection))


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("kind", GRAPHS)
def test_distances_are_scipys(kind: str, directed: bool, integers: bool) -> None:
    matrix = graph_of(kind, integers=integers)
    few, many = [3, 0, 3], list(range(20, 0, -1))
    for options in (
        {"indices": 5},
        {"indices": -1, "limit": 0.5},
        {"indices": few},
        {"indices": np.array([few])},
        {"indices": many, "limit": 0.5},
        {"indices": few, "min_only": True},
        {"indices": many, "unweighted": True},
        {"indices": few, "unweighted": True, "limit": 2},
        {"indices": few, "unweighted": True, "min_only": True},
        {},
    ):
        assert_same(
            ours.dijkstra(matrix, directed, **options), scipys.dijkstra(matrix, directed, **options)
        )
    assert_same(ours.floyd_warshall(matrix, directed), scipys.dijkstra(matrix, directed))


@pytest.mark.parametrize("sources", [[4], list(range(30, 10, -2))])
@pytest.mark.parametrize("integers", [False, True])
def test_predecessors_are_trees(integers: bool, sources: list[int]) -> None:
    matrix = graph_of("dense", integers=integers)
    for limit in (np.inf, 0.01):
        distance, predecessor = ours.dijkstra(
            matrix, indices=sources, return_predecessors=True, limit=limit
        )
        for index, source in enumerate(sources):
            assert_is_tree(matrix, distance[index], predecessor[index], source)


def test_nearest_source_is_that_of_the_path() -> None:
    matrix, seeds = graph_of("sparse"), [1, 17, 200]
    distance, predecessor, nearest = ours.dijkstra(
        matrix, indices=seeds, min_only=True, return_predecessors=True
    )
    assert_same(
        (distance, nearest),
        scipys.dijkstra(matrix, indices=seeds, min_only=True, return_predecessors=True)[::2],
    )
    for vertex in np.flatnonzero(predecessor >= 0):
        assert nearest[predecessor[vertex]] == nearest[vertex]


@pytest.mark.parametrize("unweighted", [False, True])
def test_negative_weights(unweighted: bool) -> None:
    matrix = graph_of("sparse")
    # Potentials make all weights that were positive negative here and there, and no cycle.
    potential = np.random.default_rng(3).random(matrix.shape[0])
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    matrix.data += potential[row] - potential[matrix.indices]
    assert matrix.data.min() < 0
    for name in ("johnson", "bellman_ford", "floyd_warshall"):
        mine = getattr(ours, name)(matrix, unweighted=unweighted)
        # Without weights SciPy warns of negative ones.
        others = scipys.johnson(abs(matrix) if unweighted else matrix, unweighted=unweighted)
        np.testing.assert_allclose(mine, others, atol=1e-9)
    with pytest.warns(UserWarning, match="negative weights"):
        ours.dijkstra(matrix, indices=0)


def test_negative_cycles_that_matter() -> None:
    # 0 -> 1, and a cycle 2 <-> 3 that leads to 1.
    matrix = sparse.csr_array(([1.0, 1.0, -2.0, 1.0], ([0, 2, 3, 3], [1, 3, 2, 1])), shape=(4, 4))
    for name in ("johnson", "bellman_ford", "floyd_warshall"):
        with pytest.raises(scipys.NegativeCycleError):
            getattr(ours, name)(matrix)
    with pytest.raises(scipys.NegativeCycleError):
        ours.bellman_ford(matrix, indices=[0, 2])
    assert ours.bellman_ford(matrix, indices=0).tolist() == [0, 1, np.inf, np.inf]
    loop = sparse.csr_array(([-1.0, 1.0], ([0, 0], [0, 1])), shape=(2, 2))
    with pytest.raises(scipys.NegativeCycleError):
        ours.johnson(loop)


def test_infinite_weights_lead_nowhere() -> None:
    """8 sources or more: predecessors follow from distances there."""
    # 0 -> 1 (inf), 0 -> 2 (1), 2 -> 3 (0), 3 -> 1 (inf), 3 -> 4 (0), 5 -> 0 (2); 6 and 7 alone.
    infinite = np.array([np.inf, 1.0, 0.0, np.inf, 0.0, 2.0])
    ends = [0, 0, 2, 3, 3, 5], [1, 2, 3, 1, 4, 0]
    for weights in (infinite, np.where(infinite == 0, 0.5, infinite), np.full(6, np.inf)):
        matrix = sparse.csr_array((weights, ends), shape=(8, 8))
        for name in ("dijkstra", "johnson"):
            for directed in (True, False):
                mine = getattr(ours, name)(matrix, directed, return_predecessors=True)
                others = getattr(scipys, name)(matrix, directed, return_predecessors=True)
                assert_same(mine, others)
                assert_same(getattr(ours, name)(matrix, directed), others[0])


def test_sums_of_the_largest_weights_may_be_infinite() -> None:
    matrix = graph_of("sparse")
    matrix.data[::2] = np.finfo(np.float64).max
    for indices in (3, None):
        assert_same(ours.johnson(matrix, indices=indices), scipys.dijkstra(matrix, indices=indices))


def test_weights_that_are_no_numbers_hide_no_negative_ones() -> None:
    # A search for weights of 0 or more would not end on the cycle 1 <-> 2.
    weights, ends = [1.0, np.nan, -2.0, 1.0], ([0, 0, 1, 2], [1, 2, 2, 1])
    matrix = sparse.csr_array((weights, ends), shape=(3, 3))
    assert matrices.has_negative(matrix)
    with pytest.raises(scipys.NegativeCycleError):
        ours.johnson(matrix, indices=[0])
    matrix.data[3] = 3.0
    assert ours.johnson(matrix, indices=[0, 1]).tolist() == [[0, 1, -1], [np.inf, 0, -2]]
    loop = sparse.csr_array(([np.nan, -1.0, 1.0], ([0, 1, 0], [0, 1, 1])), shape=(2, 2))
    with pytest.raises(scipys.NegativeCycleError):
        ours.johnson(loop)


@pytest.mark.parametrize("directed", [True, False])
def test_matrices_with_spare_capacity(directed: bool) -> None:
    tight = graph_of("sparse")
    for columns in (False, True):
        spare = tight.tocsc() if columns else tight.copy()
        spare.data = np.concatenate([spare.data, [-1.0] * 3])
        spare.indices = np.concatenate([spare.indices, np.zeros(3, np.int32)])
        for indices in (1, range(20)):
            mine = ours.dijkstra(spare, directed, indices=indices)
            assert_same(mine, scipys.dijkstra(tight, directed, indices=indices))
        mine = ours.breadth_first_order(spare, 0)
        assert_same(mine, scipys.breadth_first_order(tight, 0))
        assert_same(ours.connected_components(spare), scipys.connected_components(tight))
        assert len(spare.data) == tight.nnz + 3


def test_what_others_have_loaded_stays() -> None:
    graph = from_edges([0, 1], [1, 2], [1.0, 2.0])
    sssp(graph, 0)
    matrix = graph_of("sparse")
    ours.johnson(matrix)
    kept = [one for one in engine_cache._engines if one.is_of(graph)]
    assert list(engine_cache._engines) == kept != []


def test_other_kinds_of_matrices() -> None:
    matrix = graph_of("sparse")
    dense = matrix.toarray()
    dense[dense == 0] = np.inf
    dense[0, 5] = np.nan
    masked = np.ma.masked_invalid(dense)
    for given in (dense, masked, matrix.tocsc(), matrix.tolil(), matrix.astype(np.float32)):
        for directed in (True, False):
            assert_same(
                ours.dijkstra(given, directed, indices=1),
                scipys.dijkstra(given, directed, indices=1),
            )
    frozen = matrix.copy()
    for array in (frozen.data, frozen.indices, frozen.indptr):
        array.flags.writeable = False
    assert_same(ours.dijkstra(frozen, indices=1), scipys.dijkstra(matrix, indices=1))
    with pytest.warns(PendingDeprecationWarning):
        given = np.asmatrix(dense), 1.0
    assert type(ours.breadth_first_tree(*given)) is type(scipys.breadth_first_tree(*given))
    # Rows in no order, and an arc that stands there twice: SciPy adds up what is not float64.
    for dtype, far, order in ((np.float64, 2, [0, 2, 1]), (np.float32, 5, [0, 1, 2])):
        weights = np.array([3, 5, 2], dtype)
        loose = sparse.csr_array((weights, [2, 1, 2], [0, 3, 3, 3]), shape=(3, 3))
        for name in ("dijkstra", "johnson", "bellman_ford"):
            assert getattr(ours, name)(loose, indices=0).tolist() == [0, 5, far]
            assert getattr(scipys, name)(loose, indices=0).tolist() == [0, 5, far]
        # Except one that takes the shortest.
        for floyd_warshall in (ours.floyd_warshall, scipys.floyd_warshall):
            assert floyd_warshall(loose)[0].tolist() == [0, 5, 2]
        assert ours.breadth_first_order(loose, 0)[0].tolist() == order
        assert scipys.breadth_first_order(loose, 0)[0].tolist() == order


def star_of_rings(rings: int, length: int) -> Any:
    """Hubs that are joined to all, and rings that are left one vertex at a time; a wide level."""
    total = 64 + rings * length
    rng = np.random.default_rng(1)
    hubs = np.repeat(np.arange(64), rings)
    to = 64 + np.tile(np.arange(rings), 64) * length
    ring = np.arange(64, total)
    after = np.where((ring - 64) % length == length - 1, ring - length + 1, ring + 1)
    source = np.concatenate([hubs, to, ring])
    target = np.concatenate([to, hubs, after])
    weight = rng.random(len(source)) ** 8 * 1e6
    return sparse.csr_array((weight, (source, target)), shape=(total, total))


@pytest.mark.parametrize("graph", ["rings", "random"])
def test_threads_change_nothing(graph: str) -> None:
    if graph == "rings":
        matrix = star_of_rings(2000, 3)
    else:
        matrix = sparse.random_array(
            (3000, 3000), density=0.02, format="csr", rng=np.random.default_rng(5)
        )
    vertices = matrix.shape[0]
    sides = matrices.sides_of(matrices.arcs_of(matrix, weighted=True), directed=True)
    found = []
    for threads in (1, 3):
        team = Team(threads)
        order = breadth_first(sides, 1, team)
        distance, predecessor = np.full(vertices, np.inf), np.full(vertices, -9999, np.int32)
        NearestSearch(sides, team).run(np.array([1]), distance, predecessor)
        found.append((*order, distance, predecessor))
        team.close()
    for one, other in pairwise(found):
        assert_same(one, other)
    assert_same(found[0][:2], scipys.breadth_first_order(matrix, 1))
    assert_same(found[0][2], scipys.dijkstra(matrix, indices=1))


def layers(vertices: int) -> Any:
    """0, then three layers of random vertices; each leads to the next by rows of any length."""
    rng = np.random.default_rng(2)
    layer = rng.integers(1, 4, vertices)
    layer[0] = 0
    near, after = (np.flatnonzero(layer == one) for one in (1, 2))
    degree = np.minimum(rng.zipf(1.6, vertices) + 9, 3000) * (layer < 3)
    degree[0] = 0
    source = np.repeat(np.arange(vertices), degree)
    target = np.where(
        layer[source] == 1, rng.choice(after, len(source)), rng.integers(1, vertices, len(source))
    )
    ends = np.append(np.zeros_like(near), source), np.append(near, target)
    return sparse.csr_array((np.ones(len(ends[0])), ends), shape=(vertices, vertices))


@pytest.mark.parametrize("directed", [True, False])
def test_rows_that_have_no_room_for_lists(directed: bool) -> None:
    """Chunks of a wide level lead to more unseen vertices than a thread can list."""
    matrix = layers(4 * CHUNK_WORDS * WORD_BITS - 100)
    sides = matrices.sides_of(matrices.arcs_of(matrix, weighted=False), directed=directed)
    for threads in (1, 3):
        team = Team(threads)
        found = breadth_first(sides, 0, team)
        team.close()
        assert_same(found, scipys.breadth_first_order(matrix, 0, directed))


def test_only_matrices_that_are_their_transposes_are_symmetric() -> None:
    one_way = graph_of("sparse")
    matrix = (one_way + one_way.T).tocsr()
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    first = int(np.flatnonzero(rows != matrix.indices)[0])

    def is_one(given: Any, *, weighted: bool) -> bool:
        return is_symmetric(matrices.arcs_of(given, weighted=weighted), Team(1))

    assert not is_one(one_way, weighted=False)
    assert is_one(matrix, weighted=False)
    assert is_one(matrix, weighted=True)
    heavier, moved = matrix.copy(), matrix.copy()
    heavier.data[first] = np.nextafter(heavier.data[first], 1)
    assert is_one(heavier, weighted=False)
    assert not is_one(heavier, weighted=True)
    moved.indices[first] = (moved.indices[first] + 1) % matrix.shape[0]
    assert not is_one(moved, weighted=False)


def test_buckets_are_made_anew_when_their_pool_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_module.NearestSearch, "pool_share", 0)
    matrix = star_of_rings(500, 5)
    assert_same(ours.dijkstra(matrix, indices=1), scipys.dijkstra(matrix, indices=1))


@pytest.mark.timeout(60)
def test_no_empty_bucket_is_looked_at_before_far_ones() -> None:
    # 3 and 4 are put in the last bucket at different times.
    weights, ends = [1.0, 1.0, 1.0, 1e18, 1e18], ([0, 1, 2, 0, 2], [1, 2, 0, 3, 4])
    matrix = sparse.csr_array((weights, ends), shape=(5, 5))
    assert_same(ours.dijkstra(matrix, indices=0), scipys.dijkstra(matrix, indices=0))


def test_far_vertices_move_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """However far apart they are: each entry of the pool is a vertex that was put in a list."""
    monkeypatch.setattr(NearestSearch, "pool_share", 31)
    vertices, rng = 3000, np.random.default_rng(4)
    leaves, weights = np.arange(1, vertices), 10 ** (17 * rng.random(vertices - 1))
    star = sparse.csr_array((weights, (0 * leaves, leaves)), shape=(vertices, vertices))
    search = NearestSearch(
        matrices.sides_of(matrices.arcs_of(star, weighted=True), directed=True), Team(1)
    )
    search._pool[:] = -1
    distance = np.full(vertices, np.inf)
    search.run(np.array([0]), distance, np.empty(0, np.int32))
    assert_same(distance, scipys.dijkstra(star, indices=0))
    assert np.count_nonzero(search._pool[:, 0] >= 0) < 4 * vertices


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda g: ours.dijkstra(g, indices=400), "indices out of range"),
        (lambda g: ours.dijkstra(g, limit=-1), "limit must be"),
        (lambda g: ours.dijkstra(g, limit=np.nan), "limit must be"),
        (lambda g: ours.johnson(-np.inf * sparse.triu(g, 1)), "weight -inf"),
        (lambda g: ours.breadth_first_order(g, -1), "i_start"),
        (lambda g: ours.connected_components(g, connection="none"), "connection must be"),
        (lambda g: ours.shortest_path(g, method="A"), "unrecognized method"),
        (lambda g: ours.shortest_path(g, method="FW", indices=1), "Cannot specify indices"),
        (lambda g: ours.dijkstra(g[:5]), "shape"),
    ],
)
def test_mistakes_are_named(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call(graph_of("sparse"))


def test_small_graphs_are_left_to_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    matrix = graph_of("pieces")
    few = matrix[:100, :100]
    for given in (few.tocoo(), np.asfortranarray(few.toarray())):
        assert_same(ours.floyd_warshall(given), scipys.floyd_warshall(few))
    calls = []
    monkeypatch.setattr(scipys, "dijkstra", lambda *given: calls.append(given))
    ours.dijkstra(matrix, indices=0)
    assert len(calls) == 1


def test_all_names_of_scipy_are_there() -> None:
    assert set(ours.__all__) == set(scipys.__all__)
    for name in scipys.__all__:
        is_own = getattr(ours, name) is not getattr(scipys, name)
        assert is_own == (name in {function.__name__ for function in ours.OWN})


def test_the_page_runs() -> None:
    programs = blocks(ROOT / "docs" / "how-to" / "csgraph.md", "python")
    assert len(programs) == 1
    exec(programs[0], {})


def test_without_scipy() -> None:
    program = "import sys; sys.modules['scipy'] = None\nimport ooc_graph.csgraph"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "pip install 'ooc-graph[scipy]'" in done.stderr
