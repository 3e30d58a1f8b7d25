"""The Kronecker generator against published values and a plain-Python reading of the spec."""

from __future__ import annotations

import hashlib
import itertools
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.edges.multiple_recursive import mrg_seed, mrg_skip, scramble_constants
from ooc_graph.errors import UsageError
from tests.shared_data import need_shared

P = 2**31 - 1
WORD = 2**64

# sha256 of the little-endian bytes of edges int64 (M, 2) and weights float32 (M,).
HASHES = {
    10: (
        "959f7be6382c69afe8fbc4f78b0d1d86569a38ab429e02d9c26b968ede6255ec",
        "199971e6332f459fe9980a9824b2961e9ec6c724118e24549a1c3880d28616b4",
    ),
    14: (
        "3625670bedd5a56dce03247f8198dbf33105e186ae0c0f605d4353f55eacfa3c",
        "24db2e4fe26628a36d18ad9998ad98c4cdc1193e7c797349196be32c52278f5f",
    ),
}
FIRST_KEYS = {
    10: [458, 214, 220, 966, 395, 9, 848, 777],
    14: [7337, 3434, 3526, 2016, 15463, 6328, 7452, 13579],
}
STATES = {
    (0, 0, 1): (322227026, 3, 1, 4, 1),
    (0, 0, 255): (45258216, 1976303543, 1923278272, 1858791475, 511255912),
    (0, 0, 256): (1211596824, 45258216, 1976303543, 1923278272, 1858791475),
    (0, 1, 0): (1179132795, 1245280163, 1454495194, 816691580, 2062335085),
    (0, 2, 0): (623680852, 1596013026, 508353307, 2014576893, 56442308),
    (0, 12345, 0): (601623136, 1448310535, 2034057648, 1139598787, 21439059),
    (2, 0, 0): (1008715654, 386687731, 1163232466, 289541785, 134523461),
    (50, 7, 0): (757422177, 831824171, 951118470, 74315092, 319471992),
}
# Seeds (2, 3): a draw below 3647 early, in the middle and at the very last level.
REJECTING = [(12, 49556), (29, 99839), (30, 99839), (31, 5062), (33, 115600), (40, 15286)]
HARD_SEEDS = [(2, 3), (0, 0), (WORD - 1, WORD - 1), (2**40 + 5, 7), (11, 2**63 + 2**33 + 9)]


# ---- oracle: one edge at a time, Python integers, nothing shared with the package ----


def oracle_seed(u1: int, u2: int) -> list[int]:
    m = 0x3FFFFFFF
    return [
        (u1 & m) + 1,
        ((u1 >> 30) & m) + 1,
        (u2 & m) + 1,
        ((u2 >> 30) & m) + 1,
        ((u2 >> 60) << 4) + (u1 >> 60) + 1,
    ]


def oracle_step(z: list[int]) -> list[int]:
    return [(107374182 * z[0] + 104480 * z[4]) % P, *z[:4]]


@cache
def oracle_matrix(power: int) -> tuple[tuple[int, ...], ...]:
    """A ** (2 ** power)."""
    if power == 0:
        shift = [[int(i == j) for j in range(5)] for i in range(4)]
        return tuple(tuple(row) for row in [[107374182, 0, 0, 0, 104480], *shift])
    a = oracle_matrix(power - 1)
    return tuple(
        tuple(sum(a[i][k] * a[k][j] for k in range(5)) % P for j in range(5)) for i in range(5)
    )


def oracle_skip(z: list[int], high: int, middle: int, low: int) -> list[int]:
    steps, power = low + middle * WORD + high * WORD**2, 0
    while steps:
        if steps % 2:
            z = [
                sum(m * s for m, s in zip(row, z, strict=True)) % P for row in oracle_matrix(power)
            ]
        steps, power = steps // 2, power + 1
    return z


def oracle_constants(seeds: tuple[int, int]) -> tuple[int, int]:
    z, draws = oracle_skip(oracle_seed(*seeds), 50, 7, 0), []
    for _ in range(4):
        z = oracle_step(z)
        draws.append(z[0])
    return (draws[0] * 0xFFFFFFFF + draws[1]) % WORD, (draws[2] * 0xFFFFFFFF + draws[3]) % WORD


def oracle_scramble(v: int, scale: int, val0: int, val1: int) -> int:
    v = (v + val0 + val1) % WORD
    for factor in (val0 | 0x4519840211493211, val1 | 0x3050852102C843A5):
        v = v * factor % WORD
        v = int(f"{v:064b}"[::-1], 2) >> (64 - scale)
    return v


def oracle_edge(seeds: tuple[int, int], scale: int, edge: int) -> tuple[int, int, np.float32, int]:
    """Source, target, weight and number of rejected draws."""
    z = oracle_skip(oracle_seed(*seeds), 0, edge, 0)
    src = tgt = rejected = 0
    n = 2**scale
    while n > 1:
        z = oracle_step(z)
        if z[0] < 3647:
            rejected += 1
            continue
        v = z[0] % 10000
        square = 1 if v < 1900 else 2 if v < 3800 else 0 if v < 9500 else 3
        bit, other = divmod(square, 2)
        if src == tgt and bit > other:
            bit, other = other, bit
        n //= 2
        src, tgt = src + n * bit, tgt + n * other
    z = oracle_step(z)
    weight = np.float32(np.float64(np.float32(z[0])) * 4.65661287524579692e-10)
    val0, val1 = oracle_constants(seeds)
    ends = (oracle_scramble(v, scale, val0, val1) for v in (src, tgt))
    return *ends, weight, rejected


def oracle_keys(k: Kronecker, count: int) -> list[int]:
    source, target, _ = k.block(0, k.edges)
    alive = {int(v) for u, w in zip(source, target, strict=True) if u != w for v in (u, w)}
    n, counter, keys = 2**k.scale, 0, []
    while len(keys) < count:
        while True:
            z = oracle_skip(oracle_seed(*k.seeds), 2, 0, 2 * counter)
            d = []
            for _ in range(2):
                z = oracle_step(z)
                a, z = z[0], oracle_step(z)
                d.append(a * 4.65661287524579692e-10 + z[0] * 2.168404346990492787e-19)
            root = int((d[0] + d[1]) * n) % n
            counter += 2
            if counter > 2 * n or (root not in keys and root in alive):
                break
        keys.append(root)
    return keys


def assert_matches_oracle(k: Kronecker, start: int, stop: int) -> int:
    """Compare a range; returns how many draws the oracle rejected."""
    source, target, weight = k.block(start, stop)
    want = [oracle_edge(k.seeds, k.scale, edge) for edge in range(start, stop)]
    assert source.tolist() == [row[0] for row in want]
    assert target.tolist() == [row[1] for row in want]
    assert weight.tobytes() == np.array([row[2] for row in want], np.float32).tobytes()
    return sum(row[3] for row in want)


# ---- published values ----


@pytest.mark.parametrize("skip", STATES)
def test_random_states_are_the_published_ones(skip):
    high, middle, low = skip
    assert oracle_skip([3, 1, 4, 1, 1], high, middle, low) == list(STATES[skip])
    assert mrg_skip(mrg_seed((2, 3)), high=high, middle=middle, low=low) == STATES[skip]


def test_scramble_constants_are_the_published_ones():
    assert scramble_constants((2, 3)) == (7111014902169325161, 3043718919927570188)


@pytest.mark.parametrize("scale", HASHES)
def test_all_edges_and_weights_have_the_published_hashes(scale):
    k = Kronecker(scale)
    source, target, weight = k.block(0, k.edges)
    edges = np.stack([source, target], axis=1).astype("<i8")
    assert hashlib.sha256(edges.tobytes()).hexdigest() == HASHES[scale][0]
    assert hashlib.sha256(weight.astype("<f4").tobytes()).hexdigest() == HASHES[scale][1]


def test_first_and_last_edges_are_the_published_ones():
    small, large = Kronecker(10), Kronecker(14)
    source, target, weight = small.block(0, 4)
    assert source.tolist() == [299, 684, 185, 428]
    assert target.tolist() == [797, 861, 385, 328]
    assert weight[0] == float.fromhex("0x1.f5ef3cp-2")
    assert weight[1] == float.fromhex("0x1.0e9e4cp-1")
    assert small.block(16383, 16384) == (206, 55, np.float32(0.84886783))
    source, target, weight = large.block(0, 4)
    assert source.tolist() == [14207, 5452, 16229, 2400]
    assert target.tolist() == [9077, 10379, 1854, 14842]
    assert weight[1] == float.fromhex("0x1.61cf92p-1")
    assert large.block(262143, 262144) == (12099, 9415, np.float32(0.10429807))


def test_scale_10_equals_the_golden_arrays():
    golden = np.load(need_shared("spec/golden/scale10.npz"))
    k = Kronecker(10)
    source, target, weight = k.block(0, k.edges)
    np.testing.assert_array_equal(np.stack([source, target], axis=1), golden["edges"])
    np.testing.assert_array_equal(weight, golden["weights"])
    np.testing.assert_array_equal(k.search_keys(64), golden["roots"])


@pytest.mark.parametrize(("scale", "nedge"), [(10, 16239), (14, 261818)])
def test_edges_of_the_keys_component_are_as_many_as_published(scale, nedge):
    k = Kronecker(scale)
    source, target, _ = k.block(0, k.edges)
    parent = list(range(k.vertices))

    def root(v: int) -> int:
        while parent[v] != v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        return v

    edges = list(zip(source.tolist(), target.tolist(), strict=True))
    for u, v in edges:
        parent[root(u)] = root(v)
    giant = root(FIRST_KEYS[scale][0])
    assert sum(u != v and root(u) == giant for u, v in edges) == nedge
    assert all(root(int(key)) == giant for key in k.search_keys())


# ---- against the oracle ----


@pytest.mark.parametrize("seeds", HARD_SEEDS)
@pytest.mark.parametrize("scale", [1, 2, 5, 7, 13, 24])
def test_any_seeds_and_scale(seeds, scale):
    k = Kronecker(scale, seeds=seeds)
    assert scramble_constants(seeds) == oracle_constants(seeds)
    assert_matches_oracle(k, 0, min(20, k.edges))
    assert_matches_oracle(k, k.edges - 5, k.edges)


@pytest.mark.parametrize("scale", [31, 32, 33, 36, 39, 40])
def test_last_edges_of_large_scales(scale):
    k = Kronecker(scale)
    assert_matches_oracle(k, k.edges - 140, k.edges)


def test_most_edges_that_fit_signed_64_bits():
    k = Kronecker(40, edge_factor=2**23 - 1)
    assert_matches_oracle(k, k.edges - 3, k.edges)


@pytest.mark.parametrize(("scale", "edge"), REJECTING)
def test_edges_with_a_rejected_draw(scale, edge):
    assert assert_matches_oracle(Kronecker(scale), edge - 1, edge + 2) > 0


# ---- blocks, units, buffers ----

WHOLE = Kronecker(13)


@cache
def whole() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return WHOLE.block(0, WHOLE.edges, threads=1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, WHOLE.edges), st.integers(0, 1000), st.integers(1, 3))
def test_any_block_is_a_slice_of_the_whole(start, length, threads):
    stop = min(start + length, WHOLE.edges)
    for part, column in zip(WHOLE.block(start, stop, threads=threads), whole(), strict=True):
        np.testing.assert_array_equal(part, column[start:stop])


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, WHOLE.edges), max_size=6))
def test_any_split_joins_to_the_whole(cuts):
    bounds = [0, *sorted(cuts), WHOLE.edges]
    pairs = list(itertools.pairwise(bounds))
    blocks = {pair: WHOLE.block(*pair) for pair in reversed(pairs)}
    for i, column in enumerate(whole()):
        np.testing.assert_array_equal(np.concatenate([blocks[pair][i] for pair in pairs]), column)


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_threads_do_not_change_a_block(threads):
    for part, column in zip(WHOLE.block(0, WHOLE.edges, threads=threads), whole(), strict=True):
        np.testing.assert_array_equal(part, column)


def test_block_types_and_empty_block():
    source, target, weight = WHOLE.block(5, 5)
    assert (source.dtype, target.dtype, weight.dtype) == (np.int64, np.int64, np.float32)
    assert len(source) == len(target) == len(weight) == 0


@pytest.mark.parametrize("edge_factor", [1, 3])
def test_edge_factor_cuts_the_same_list(edge_factor):
    k = Kronecker(10, edge_factor=edge_factor)
    assert k.edges == edge_factor * 1024
    full = Kronecker(10).block(0, k.edges)
    for part, column in zip(k.block(0, k.edges), full, strict=True):
        np.testing.assert_array_equal(part, column)
    with pytest.raises(UsageError, match="no edges"):
        k.block(0, k.edges + 1)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("edges_per_unit", [1 << 20, 50_000, 9_999])
def test_units_read_back_the_whole(weighted, edges_per_unit):
    k = Kronecker(13, weighted=weighted)
    units = k.units(edges_per_unit)
    assert [unit.index for unit in units] == list(range(len(units)))
    blocks = [block for unit in units for block in k.read(unit, 4_000)]
    assert max(len(block) for block in blocks) <= 4_000
    source, target, weight = whole()
    np.testing.assert_array_equal(np.concatenate([b.source for b in blocks]), source)
    np.testing.assert_array_equal(np.concatenate([b.target for b in blocks]), target)
    if weighted:
        np.testing.assert_array_equal(np.concatenate([b.weight for b in blocks]), weight)
    else:
        assert all(block.weight is None for block in blocks)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.uint32])
def test_generate_into_writes_the_callers_arrays_from_many_threads(dtype):
    source, target = np.zeros(WHOLE.edges, dtype), np.zeros(WHOLE.edges, dtype)
    weight = np.zeros(WHOLE.edges, np.float32)

    def fill(start: int) -> None:
        part = slice(start, start + 10_000)
        WHOLE.generate_into(start, source[part], target[part], weight[part])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, range(0, WHOLE.edges, 10_000)))
    for part, column in zip((source, target, weight), whole(), strict=True):
        np.testing.assert_array_equal(part, column)


def test_source_attributes():
    k, plain = Kronecker(10, edge_factor=4), Kronecker(10, weighted=False)
    assert (k.directed, k.rereadable, k.edges, k.id_range) == (False, True, 4096, (0, 1024))
    assert (k.weighted, k.weight_dtype) == (True, np.dtype(np.float32))
    assert (plain.weighted, plain.weight_dtype) == (False, None)
    assert list(k.vertex_blocks()) == []
    assert json.loads(json.dumps(k.describe()))["seeds"] == [2, 3]
    assert k.describe() == Kronecker(np.int64(10), edge_factor=4, seeds=[2, 3]).describe()
    assert k.describe() != plain.describe()


def test_pickles_compares_and_is_frozen():
    k = Kronecker(12, edge_factor=3, seeds=(2**64 - 1, 5), weighted=False)
    twin = pickle.loads(pickle.dumps(k))
    assert twin == k
    assert hash(twin) == hash(k)
    with pytest.raises(AttributeError):
        k.scale = 3


# ---- search keys ----


@pytest.mark.parametrize("scale", FIRST_KEYS)
def test_first_keys_are_the_published_ones(scale):
    keys = Kronecker(scale).search_keys(64)
    assert keys.dtype == np.int64
    assert keys[:8].tolist() == FIRST_KEYS[scale]
    assert len(set(keys.tolist())) == 64


@pytest.mark.parametrize("seeds", HARD_SEEDS)
@pytest.mark.parametrize(
    ("scale", "edge_factor", "count"), [(1, 1, 8), (3, 1, 64), (5, 16, 64), (7, 1, 64), (9, 2, 64)]
)
def test_keys_follow_the_oracle_also_where_vertices_run_out(seeds, scale, edge_factor, count):
    k = Kronecker(scale, edge_factor=edge_factor, seeds=seeds)
    assert k.search_keys(count).tolist() == oracle_keys(k, count)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_keys_do_not_depend_on_who_knows_the_degrees(threads):
    k = Kronecker(12, edge_factor=1)
    source, target, _ = k.block(0, k.edges)
    ends = np.concatenate([source[source != target], target[source != target]])
    degree = np.bincount(ends, minlength=k.vertices)
    assert (degree == 0).any()
    keys = k.search_keys(100, threads=threads)
    assert (degree[keys] > 0).all()
    np.testing.assert_array_equal(k.search_keys(100, degree=degree), keys)
    np.testing.assert_array_equal(k.search_keys(100, degree=lambda ids: degree[ids] > 0), keys)
    np.testing.assert_array_equal(k.search_keys(30), keys[:30])


# ---- refusals ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": 0}, "scale is 0"),
        ({"scale": 41}, "scale is 41"),
        ({"scale": 1.5}, "scale: 1.5"),
        ({"scale": "10"}, "scale"),
        ({"scale": 10, "edge_factor": 0}, "edge_factor is 0"),
        ({"scale": 40, "edge_factor": 2**23}, "below"),
        ({"scale": 10, "seeds": (2,)}, "two integers"),
        ({"scale": 10, "seeds": (2, 3, 4)}, "two integers"),
        ({"scale": 10, "seeds": (-1, 3)}, "two integers"),
        ({"scale": 10, "seeds": (2, 2**64)}, "two integers"),
        ({"scale": 10, "seeds": (2.0, 3)}, "seeds: 2.0"),
    ],
)
def test_refuses_parameters_out_of_range(arguments, message):
    with pytest.raises(UsageError, match=message):
        Kronecker(**arguments)


def test_refuses_calls_that_cannot_be_met():
    k = Kronecker(4)
    ids, narrow = np.zeros(10, np.int64), np.zeros(10, np.uint32)
    for start, stop in [(-1, 3), (5, 4), (0, 257)]:
        with pytest.raises(UsageError, match="no edges"):
            k.block(start, stop)
    with pytest.raises(UsageError, match="threads"):
        k.block(0, 10, threads=0)
    with pytest.raises(UsageError, match="count"):
        k.search_keys(0)
    with pytest.raises(UsageError, match="edges_per_unit"):
        k.units(0)
    with pytest.raises(UsageError, match="block_edges"):
        next(k.read(k.units(10)[0], 0))
    with pytest.raises(UsageError, match="one length"):
        k.generate_into(0, ids, ids[:9].copy())
    with pytest.raises(UsageError, match="no edges"):
        k.generate_into(250, ids, ids.copy())
    with pytest.raises(UsageError, match="64-bit"):
        Kronecker(33).generate_into(0, narrow, narrow.copy())
