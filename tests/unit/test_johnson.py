"""Johnson's algorithm: against Floyd-Warshall in exact numbers, SciPy, and graphs with cycles."""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import johnson

from ooc_graph.errors import InputError, NegativeCycleError
from ooc_graph.kernels.common.many import bellman_ford_search
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many import choice as many_choice
from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
from ooc_graph.types import INT64_UNREACHED
from tests.strategies import Arcs, arcs_of, grid, skewed


def johnson_of(arcs: Arcs, threads: int = 1) -> CpuJohnson:
    shard = arcs.shards(1)[0]
    into = shard.into_light if arcs.directed else shard.out_light
    return CpuJohnson(shard.out_light, into, Team(threads))


def floyd_warshall(arcs: Arcs) -> list[list[Fraction | None]] | None:
    """Exact distances, None for pairs without a way; None at all where a cycle is negative."""
    n = arcs.vertices
    far: list[list[Fraction | None]] = [[None] * n for _ in range(n)]
    for u, v, w in zip(arcs.source, arcs.target, arcs.weight.tolist(), strict=True):
        far[u][v] = Fraction(w)
    for v in range(n):
        far[v][v] = Fraction(0)
    for k in range(n):
        for u in range(n):
            for v in range(n):
                if far[u][k] is None or far[k][v] is None:
                    continue
                through = far[u][k] + far[k][v]
                if far[u][v] is None or through < far[u][v]:
                    far[u][v] = through
    return None if any(far[v][v] < 0 for v in range(n)) else far


def check_cycle(error: NegativeCycleError, arcs: Arcs) -> None:
    """Its arcs are the graph's, and their exact sum is what it says: below zero."""
    weight = {
        (int(u), int(v)): Fraction(w)
        for u, v, w in zip(arcs.source, arcs.target, arcs.weight.tolist(), strict=True)
    }
    cycle = error.cycle
    assert len(set(cycle)) == len(cycle)
    total = sum(weight[pair] for pair in zip(cycle, cycle[1:] + cycle[:1], strict=True))
    assert total < 0
    assert error.weight == (total if isinstance(error.weight, int) else float(total))


@st.composite
def signed_arcs(draw, dtype: str) -> Arcs:
    n, count = draw(st.integers(2, 9)), draw(st.integers(1, 30))
    ends = st.lists(st.integers(0, n - 1), min_size=count, max_size=count)
    source, target = np.array(draw(ends)), np.array(draw(ends))
    if not (source != target).any():
        source[0], target[0] = 0, 1
    value = st.integers(-2, 6) if dtype.startswith("int") else st.sampled_from([-0.5, 0, 0.25, 2])
    weight = np.array(draw(st.lists(value, min_size=count, max_size=count)), dtype)
    return arcs_of(source, target, weight, directed=True)


@pytest.mark.parametrize(
    "dtype",
    [
        "int64",
        "float64",
        pytest.param("int32", marks=pytest.mark.slow),
        pytest.param("float32", marks=pytest.mark.slow),
    ],
)
def test_small_graphs_are_exact(dtype):
    """These floats are sums of quarters, which are not rounded."""

    @settings(max_examples=100, deadline=None)
    @given(signed_arcs(dtype))
    def run(arcs):
        exact = floyd_warshall(arcs)
        if exact is None:
            with pytest.raises(NegativeCycleError) as caught:
                johnson_of(arcs)
            check_cycle(caught.value, arcs)
            return
        got = johnson_of(arcs).run(np.arange(arcs.vertices))
        none = np.inf if got.dtype.kind == "f" else INT64_UNREACHED
        assert got.tolist() == [[none if d is None else d for d in row] for row in exact]

    run()


def shifted(arcs: Arcs, seed: int = 1) -> Arcs:
    """The same shortest paths, with weights of both signs."""
    by = np.random.default_rng(seed).random(arcs.vertices)
    return replace(arcs, weight=arcs.weight + (by[arcs.source] - by[arcs.target]))


def test_against_scipy():
    arcs = shifted(skewed(500, 4000, "float64", directed=True, seed=2))
    assert (arcs.weight < 0).mean() > 0.1
    matrix = csr_array((arcs.weight, (arcs.source, arcs.target)), shape=(arcs.vertices,) * 2)
    got = johnson_of(arcs, 2).run(np.arange(arcs.vertices))
    np.testing.assert_allclose(got, johnson(matrix), rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "float64"])
def test_cycles_near_zero_end(dtype):
    """Rounded differences: cycles sum up to almost zero, on either side of it."""
    random = np.random.default_rng(3)
    by = random.random(60) * 1e3
    source, target = (random.integers(0, 60, 900) for _ in range(2))
    arcs = arcs_of(source, target, (by[source] - by[target]).astype(dtype), directed=True)
    try:
        found = johnson_of(arcs)
    except NegativeCycleError as error:
        check_cycle(error, arcs)
    else:
        assert found.potentials is not None
        assert 0 < found.potentials.tolerance < 1e-4


@pytest.mark.parametrize("turn", range(5))
def test_a_cycle_of_weight_zero_whose_sums_are_rounded(turn):
    """2^54 + 1 is no float64: rounded sums around the cycle do not come back."""
    weight = np.roll(np.array([-(2.0**54), -1, -1, 2.0**54, 2]), turn)
    arcs = arcs_of(np.arange(5), (np.arange(5) + 1) % 5, weight, directed=True)
    got = johnson_of(arcs).run(np.arange(5))
    exact = floyd_warshall(arcs)
    assert exact is not None
    np.testing.assert_allclose(got, np.array(exact, np.float64), rtol=0, atol=2.0**54 * 2e-15)


@pytest.mark.parametrize(("dtype", "heavy"), [("float32", -1e7), ("float64", -1e16)])
@pytest.mark.parametrize("together", [False, True])
def test_heavy_weights_elsewhere_make_nothing_less_exact(dtype, heavy, together):
    """Neither in another component nor behind, where no path leads back from them."""
    u, v, w = [0, 2, 3], [1, 3, 4], [heavy, 1.0, -1.25]
    if together:
        u, v, w = [*u, 4], [*v, 0], [*w, 2.0]
    arcs = arcs_of(u, v, np.array(w, dtype), directed=True)
    pairs = zip(arcs.source.tolist(), arcs.target.tolist(), strict=True)
    ends = dict(zip(arcs.weight.tolist(), pairs, strict=True))
    answer = johnson_of(arcs).run(np.arange(5))
    assert [answer[ends[weight]] for weight in arcs.weight.tolist()] == arcs.weight.tolist()
    assert answer[ends[1.0][0], ends[-1.25][1]] == -0.25
    # And back from the end of the light ones to their middle.
    arcs = arcs_of([*u, 4], [*v, 3], np.array([*w, 0.75], dtype), directed=True)
    with pytest.raises(NegativeCycleError) as found:
        johnson_of(arcs).run(np.arange(1))
    check_cycle(found.value, arcs)
    assert found.value.weight == -0.5


@pytest.mark.parametrize("length", [2, 3, 500])
def test_cycles_apart_and_long(length):
    """A negative cycle that nothing else reaches."""
    source = np.concatenate([np.arange(length), [length, length + 1]])
    target = np.concatenate([(np.arange(length) + 1) % length, [length + 1, length + 2]])
    weight = np.ones(length + 2)
    weight[0] = 0.5 - length
    arcs = arcs_of(source, target, weight, directed=True)
    with pytest.raises(NegativeCycleError) as caught:
        johnson_of(arcs)
    check_cycle(caught.value, arcs)
    assert len(caught.value.cycle) == length
    assert caught.value.exit_code == 3
    way = str(caught.value).rpartition(": ")[2].split(" -> ")
    assert way[0] == way[-1] == str(caught.value.cycle[0])
    assert len(way) == (length + 1 if length < 20 else 21)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_vertex_pushes_once_in_a_pass():
    """Two ways at each fork, the worse one pushed first: depth first that is 2^forks."""
    forks = 16
    fork = np.arange(forks, -1, -1)
    middle = forks + 1 + np.arange(forks, 0, -1)
    heavy = 2 ** np.arange(forks, 0, -1)
    source = np.concatenate([fork[:-1], fork[:-1], middle])
    target = np.concatenate([fork[1:], middle, fork[1:]])
    weight = np.concatenate([-np.ones(2 * forks, np.int64), -heavy])
    arcs = arcs_of(source, target, weight, directed=True)
    found = johnson_of(arcs).potentials
    assert found is not None
    assert found.potential.min() == -heavy.sum() - forks
    assert found.improvements <= (2 * forks + 1) * len(weight)


def test_a_negative_undirected_edge_is_a_cycle():
    arcs = arcs_of([0, 1], [1, 2], np.array([-1, 4]), directed=False)
    with pytest.raises(NegativeCycleError) as caught:
        johnson_of(arcs)
    assert len(caught.value.cycle) == 2
    assert caught.value.weight == -2


def test_sums_that_might_overflow_are_refused():
    arcs = arcs_of([0, 1], [1, 2], np.array([-(2**60), 2**60]), directed=True)
    with pytest.raises(InputError, match="bound"):
        johnson_of(arcs)


def test_long_negative_paths_are_no_reason_to_refuse():
    """A vertex beside a chain of -2^50: new weights are up to 2^60, paths of them no longer."""
    n = 1000
    source, target = np.append(np.arange(n - 1), n), np.append(np.arange(1, n), n - 1)
    weight = np.append(np.full(n - 1, -(2**50)), 5)
    arcs = arcs_of(source, target, weight, directed=True)
    got = johnson_of(arcs).run(np.arange(n + 1))
    assert got.min() == -(n - 1) * 2**50
    assert (got == 5).sum() == 1


def test_bound_of_paths_with_potentials():
    """Just within 2^61 for the potentials, and above it for the distances."""
    n = 8
    weight = np.full(n - 1, -(2**58) + 1)
    arcs = arcs_of(np.arange(n - 1), np.arange(1, n), weight, directed=True)
    with pytest.raises(InputError, match="many sources at once"):
        johnson_of(arcs)


def exact_distances(arcs: Arcs, weights: list[Fraction], source: int) -> list[Fraction | None]:
    far: list[Fraction | None] = [None] * arcs.vertices
    far[source] = Fraction(0)
    going = True
    while going:
        going = False
        for u, v, w in zip(arcs.source.tolist(), arcs.target.tolist(), weights, strict=True):
            at, there = far[u], far[v]
            if at is not None and (there is None or at + w < there):
                far[v], going = at + w, True
    return far


def tall(dtype: str, height: float) -> Arcs:
    """Weights of both signs, and a little more, so that rounding makes no cycle negative."""
    arcs = skewed(120, 700, dtype, directed=True, seed=6)
    by = (np.random.default_rng(1).random(arcs.vertices) * height).astype(dtype)
    weight = arcs.weight + by[arcs.source] - by[arcs.target] + np.dtype(dtype).type(height * 1e-5)
    return replace(arcs, weight=weight)


def worst_and_bound(arcs: Arcs, search: CpuJohnson) -> tuple[Fraction, float]:
    """The largest error against exact distances, and the bound of explanation/many_sources.md."""
    got = search.run(np.arange(arcs.vertices))
    weights = [Fraction(w) for w in arcs.weight.tolist()]
    worst, largest = Fraction(0), Fraction(0)
    for source in range(0, arcs.vertices, 3):
        exact = exact_distances(arcs, weights, source)
        for found, right in zip(got[source].tolist(), exact, strict=True):
            assert (right is None) == (found == np.inf)
            if right is not None:
                worst = max(worst, abs(Fraction(found) - right))
                largest = max(largest, abs(right))
    assert search.potentials is not None
    half = float(np.finfo(arcs.weight.dtype).eps) / 2
    highest = float(-search.potentials.potential.min())
    terms = 2 * float(np.abs(arcs.weight).max()) + 3 * highest + 2 * float(largest)
    return worst, arcs.vertices * (search.potentials.tolerance * highest + half * terms)


@pytest.mark.parametrize("height", [1.0, 1e3])
@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "float64"])
def test_error_is_within_the_bound_of_the_page(dtype, height):
    """(k + 1) (t P + u (2 W + 3 P + 2 D)); and not zero, or it would say nothing."""
    arcs = tall(dtype, height)
    search = johnson_of(arcs)
    assert search.potentials is not None
    assert search.potentials.tolerance == 2 * float(np.finfo(dtype).eps)
    worst, bound = worst_and_bound(arcs, search)
    assert 0 < worst <= bound


def test_tolerance_doubles_where_passes_do_not_do(monkeypatch):
    """One pass for each tolerance: fewer than the graph needs, and the answers are still right."""
    arcs = tall("float64", 1e3)
    monkeypatch.setattr(bellman_ford_search, "PASSES", 1 / arcs.vertices)
    search = johnson_of(arcs)
    assert search.potentials is not None
    doublings = search.potentials.tolerance / (2 * np.finfo(np.float64).eps)
    assert doublings in {2.0**count for count in range(2, 12)}
    worst, bound = worst_and_bound(arcs, search)
    assert 0 < worst <= bound


def test_doublings_are_counted_too(monkeypatch):
    """What never settles ends with one line, as if rounding kept on lowering potentials."""
    arcs = tall("float64", 1e3)
    monkeypatch.setattr(bellman_ford_search, "PASSES", 1 / arcs.vertices)
    monkeypatch.setattr(bellman_ford_search, "MORE_DOUBLINGS", -arcs.vertices.bit_length())
    with pytest.raises(InputError, match="do not settle") as caught:
        johnson_of(arcs)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_integers_settle_within_their_rows(monkeypatch):
    """A chain whose rows stand against its arcs needs as many passes as rows, and no more.

    Its end has the most arcs, so its row is the first.
    """
    n = 40
    chain = np.arange(n - 1)
    weigh = np.arange(n).repeat(np.arange(n))
    source, target = np.append(chain, weigh), np.append(chain + 1, n + np.arange(len(weigh)))
    weight = np.append(np.full(n - 1, -1), np.full(len(weigh), 5 * n))
    arcs = arcs_of(source, target, weight, directed=True)
    found = johnson_of(arcs).potentials
    assert found is not None
    assert found.potential.min() == 1 - n
    monkeypatch.setattr(bellman_ford_search, "PASSES", n / arcs.vertices)
    again = johnson_of(arcs).potentials
    assert again is not None
    assert again.potential.tolist() == found.potential.tolist()
    monkeypatch.setattr(bellman_ford_search, "PASSES", (n - 2) / arcs.vertices)
    with pytest.raises(InputError, match="do not settle"):
        johnson_of(arcs)


def chooser_of(arcs: Arcs, lanes: int) -> CpuJohnson:
    shard = arcs.shards(1)[0]
    into = shard.into_light if arcs.directed else shard.out_light
    return CpuJohnson(shard.out_light, into, Team(2), lanes, shard.tuples)


@pytest.mark.parametrize("way", ["thin", "counted", "batches"])
@pytest.mark.parametrize(
    ("dtype", "negative"), [("int64", False), pytest.param("float64", True, marks=pytest.mark.slow)]
)
def test_one_by_one_gives_the_same_bytes(monkeypatch, dtype, negative, way):
    """Long and thin as the graph is, or because the first batches relaxed much, or not at all."""
    arcs = grid(9, dtype)
    if negative:
        arcs = shifted(replace(arcs, directed=True))
    monkeypatch.setattr(many_choice, "CACHED_BYTES", 0 if way == "thin" else 1 << 60)
    monkeypatch.setattr(many_choice, "MANY_RELAXED", 0.0 if way == "counted" else 1e9)
    search = chooser_of(arcs, 16)
    sources = np.arange(arcs.vertices)
    answer = search.run(sources)
    assert answer.tobytes() == johnson_of(arcs).run(sources).tobytes()
    assert search.chooser is not None
    assert (search.chooser.side_by_side is None) == (way == "batches")
    assert search.run(sources[:3]).tobytes() == answer[:3].tobytes()


def test_a_look_that_was_interrupted_has_chosen_nothing(monkeypatch):
    arcs = grid(9, "int64")
    monkeypatch.setattr(many_choice, "CACHED_BYTES", 1 << 60)
    monkeypatch.setattr(many_choice, "MANY_RELAXED", 0.0)
    search, sources = chooser_of(arcs, 16), np.arange(arcs.vertices)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    assert search.chooser is not None
    with monkeypatch.context() as patch:
        patch.setattr(search.search, "search", interrupted)
        with pytest.raises(KeyboardInterrupt):
            search.run(sources)
    assert search.chooser.side_by_side is None
    search.run(sources)
    assert search.chooser.side_by_side is not None


def test_few_sources_at_hubs_are_searched_from_one_by_one():
    """Pulls look at few arcs; batches do so once many sources have paid for finding them."""
    arcs = skewed(2000, 30000, "float32", directed=False, seed=3)
    search = chooser_of(arcs, 64)
    few, all_ = np.arange(20), np.arange(arcs.vertices)
    one = search.run(few[:1])
    assert not search.is_one_by_one
    answer = search.run(few)
    assert search.is_one_by_one
    assert one.tobytes() == answer[:1].tobytes()
    assert search.run(all_)[:20].tobytes() == answer.tobytes()
    assert not search.is_one_by_one
    assert search.run(few).tobytes() == answer.tobytes()


def test_what_batches_relax_tells_long_graphs_from_random_ones():
    """Both have few arcs a row, and batches that caches hold."""
    random, n = np.random.default_rng(1), 2000
    ends = random.integers(0, n, (2, 2 * n))
    scattered = arcs_of(*ends, random.integers(1, 1000, 2 * n), directed=False)
    for arcs, is_long in ((grid(60, "int64"), True), (scattered, False)):
        search = chooser_of(arcs, 64)
        search.run(random.integers(0, arcs.vertices, 200))
        assert search.is_one_by_one == is_long
