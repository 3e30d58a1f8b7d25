"""Verdicts of the device's validator are those of the CPU's, on right answers and on wrong ones."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import InputError, MemoryBudgetError, NegativeWeightError, UsageError
from ooc_graph.kernels.cuda_bfs import CudaBfsSearch
from ooc_graph.kernels.cuda_rows import build_rows
from ooc_graph.kernels.cuda_scatter import scatter
from ooc_graph.kernels.cuda_sssp import CudaSsspSearch
from ooc_graph.types import INT64_UNREACHED, EdgeBlock
from ooc_graph.validate import BfsAnswer, SsspAnswer, VertexIndex
from ooc_graph.validate import verdict as rules
from ooc_graph.validate.cuda_validator import (
    CudaBfsValidator,
    CudaSsspValidator,
    bytes_per_answer,
    largest_batch,
)
from tests.gpu.memory import assert_refused_without_memory
from tests.gpu.validated import agreed, cut
from tests.unit import test_validate_bfs as bfs_cases
from tests.unit import test_validate_sssp as sssp_cases
from tests.unit.test_validate_oracle import plain_bfs, plain_sssp

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")

TYPES = list(itertools.product(("uint32", "int64"), ("uint8", "int32"), ("uint32", "int64")))
RULES = {getattr(rules, name) for name in dir(rules) if name.startswith("RULE_")}


def ends_of(pairs):
    pairs = np.array(pairs, np.int64).reshape(-1, 2)
    return EdgeBlock(pairs[:, 0].copy(), pairs[:, 1].copy())


def edited(answer, change, place=int):
    columns = {name: getattr(answer, name).copy() for name in change}
    for name, entries in change.items():
        for vertex, value in entries.items():
            columns[name][place(vertex)] = value
    return replace(answer, **columns)


@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_broken_breadth_first_trees(types) -> None:
    """The CPU's cases, with ids 10 to 80 among 90 vertices."""
    edges = ends_of(bfs_cases.PAIRS)
    right = plain_bfs(range(90), edges, 10, directed=False)
    wrong = [edited(right, change) for change, _, _ in bfs_cases.BROKEN]
    answers = [right, *wrong, replace(right, root=90), replace(right, root=-1), right]
    verdicts = agreed(answers, [edges], types=types)
    assert [v.ok for v in verdicts] == [True, *[False] * (len(answers) - 2), True]
    assert (verdicts[0].reached, verdicts[0].edges) == (5, 6)
    for extra in ([(10, 40)], [(40, 10)], [(10, 40), (60, 30), (20, 60)], [(99, 98), (5, 10)]):
        for order in (1, -1):
            agreed(answers, [ends_of([*bfs_cases.PAIRS, *extra][::order])], types=types)
    agreed(answers, [ends_of([(-3, 10), (2**40, -1), *bfs_cases.PAIRS])], types=types)


@pytest.mark.parametrize("kind", sssp_cases.KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("types", TYPES[::2], ids="-".join)
def test_broken_shortest_path_trees(kind, types) -> None:
    edges = sssp_cases.edges_of(sssp_cases.TUPLES, kind)
    right = plain_sssp(range(7), edges, 0, directed=False)
    wrong = [edited(right, change) for change, _, _ in sssp_cases.BROKEN]
    if kind is not np.int64:
        odd = [{3: np.nan}, {5: np.nan}, {0: np.nan}, {5: -np.inf}]
        wrong += [edited(right, {"distance": entries}) for entries in odd]
    verdicts = agreed([right, *wrong, right], [edges], types=types)
    assert [v.ok for v in verdicts] == [True, *[False] * len(wrong), True]
    lighter = sssp_cases.edges_of([*sssp_cases.TUPLES, (1, 0, 2), (7, 1, 1)], kind)
    agreed([right, *wrong], [lighter], types=types)


def test_every_rule_is_among_the_cases() -> None:
    cases = [*bfs_cases.BROKEN, *sssp_cases.BROKEN]
    assert {rule for _, rule, _ in cases} | {rules.RULE_KNOWN} == RULES


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_one_ulp_either_way_is_found(kind) -> None:
    tuples = [(0, 1, 0.1), (1, 2, 0.7), (2, 3, 0.3), (0, 3, 1.9)]
    edges = sssp_cases.edges_of(tuples, kind)
    right = plain_sssp(range(4), edges, 0, directed=False)
    wrong = [
        edited(right, {"distance": {v: np.nextafter(right.distance[v], kind(aim))}})
        for v, aim in itertools.product((1, 2, 3), (0, 100))
    ]
    assert [v.ok for v in agreed([right, *wrong], [edges])] == [True, *[False] * 6]


def test_integers_are_exact_and_do_not_wrap() -> None:
    big = 2**53
    edges = sssp_cases.edges_of([(0, 1, big), (1, 2, 1)], np.int64)
    right = plain_sssp(range(3), edges, 0, directed=False)
    wrong = [edited(right, {"distance": {2: big + off}}) for off in (0, 2)]
    assert [v.ok for v in agreed([right, *wrong], [edges])] == [True, False, False]
    top = INT64_UNREACHED - 5
    tuples = [(0, 1, top), (0, 2, 7), (2, 1, top)]
    right = plain_sssp(range(3), sssp_cases.edges_of(tuples[:2], np.int64), 0, directed=True)
    for directed in (False, True):
        blocks = [sssp_cases.edges_of(tuples, np.int64)]
        assert agreed([right], blocks, directed=directed)[0].ok


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_subnormal_numbers_are_not_zero(kind) -> None:
    tiny = np.finfo(kind).smallest_subnormal
    tuples = [(0, 1, tiny), (1, 2, 3 * tiny), (2, 3, 0), (0, 3, 5 * tiny)]
    edges = sssp_cases.edges_of(tuples, kind)
    right = plain_sssp(range(5), edges, 0, directed=False)
    assert right.distance[3] == 4 * tiny > 0
    changes = [{v: n * tiny} for v, n in ((1, 0), (1, 2), (2, 5), (3, 3), (3, 5), (4, -1), (3, -1))]
    wrong = [edited(right, {"distance": change}) for change in changes]
    wrong.append(edited(right, {"parent": {1: 2}, "distance": {1: 4 * tiny}}))
    found = agreed([right, *wrong], [edges])
    assert [v.ok for v in found] == [True, *[False] * len(wrong)]
    check = CudaSsspValidator(5, 1)
    check.add(0, cupy.asarray(right.parent), cupy.asarray(right.distance))
    ends, weight = [cupy.asarray(ids) for ids in (edges.source, edges.target)], edges.weight.copy()
    weight[2] = -0.0
    check.block(*ends, cupy.asarray(weight))
    assert check.finish()[0].ok
    weight[2] = -tiny
    with pytest.raises(NegativeWeightError, match=f"{-tiny}"):
        check.block(*ends, cupy.asarray(weight))


def test_subnormal_weights_of_wider_distances() -> None:
    tiny = np.finfo(np.float32).smallest_subnormal
    edges = sssp_cases.edges_of([(0, 1, tiny), (1, 2, 3 * tiny)], np.float32)
    wide = replace(edges, weight=edges.weight.astype(np.float64))
    right = plain_sssp(range(3), wide, 0, directed=False)
    assert right.distance[2] == 4 * np.float64(tiny) > 0
    assert agreed([right], [edges])[0].ok
    assert not agreed([edited(right, {"distance": {2: 0}})], [edges])[0].ok


def random_case(rng, kernel):
    """A graph with duplicates and loops, and its ids as answers know them."""
    vertices, tuples = int(rng.integers(1, 22)), int(rng.integers(0, 40))
    source, target = rng.integers(0, vertices, (2, tuples))
    if rng.random() < 0.1:
        target[rng.random(tuples) < 0.1] = rng.choice([-4, vertices, vertices + 3, 2**50])
    if kernel == "bfs":
        return vertices, EdgeBlock(source, target)
    kind = sssp_cases.KINDS[rng.integers(3)]
    values = np.array([0, 1, 2, 3] if kind is np.int64 else [0, 0.1, 0.2, 0.7, 2.0**30], kind)
    return vertices, EdgeBlock(source, target, rng.choice(values, tuples))


def damage(rng, answer):
    """Change up to three entries; often an answer stays right."""
    name = "level" if isinstance(answer, BfsAnswer) else "distance"
    measure = getattr(answer, name)
    for _ in range(rng.integers(0, 4)):
        at, other = rng.integers(0, len(measure), 2)
        what = rng.integers(7)
        if what < 2:
            answer.parent[at] = rng.choice([other, -1, len(measure), -2])
        elif what == 2:
            measure[at] = measure[other]
        elif what == 3:
            answer.parent[at], measure[at] = answer.parent[other], measure[other]
        elif what == 4:
            answer.parent[at], measure[at] = -1, measure.dtype.type(-1)
            if name == "distance":
                measure[at] = answer.unreached
        elif what == 5 and measure[at] == measure[at] and abs(measure[at]) < 2**40:
            measure[at] += measure.dtype.type(rng.choice([-1, 1, 2]))
        elif measure.dtype.kind == "f":
            measure[at] = np.nextafter(measure[at], measure.dtype.type(rng.choice([0, 9])))


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_and_damage(kernel, seed) -> None:
    """Batches of every size, edges in blocks of every size, in all types, directed and not."""
    rng = np.random.default_rng([seed, kernel == "bfs"])
    plain = plain_bfs if kernel == "bfs" else plain_sssp
    said: Counter[str] = Counter()
    for number in range(30):
        vertices, edges = random_case(rng, kernel)
        directed = bool(rng.integers(2))
        known = (edges.target >= 0) & (edges.target < vertices)
        weight = None if edges.weight is None else edges.weight[known]
        inner = EdgeBlock(edges.source[known], edges.target[known], weight)
        answers = []
        for _ in range([1, 7, 64, 3][number % 4] if number < 8 else rng.integers(1, 12)):
            root = int(rng.integers(0, vertices))
            answers.append(plain(range(vertices), inner, root, directed=directed))
            damage(rng, answers[-1])
        blocks = cut(edges, sorted(rng.integers(0, len(edges) + 1, rng.integers(0, 4))))
        types = TYPES[rng.integers(len(TYPES))]
        room = min(64, len(answers) + int(rng.integers(0, 9)))
        found = agreed(answers, blocks, directed=directed, room=room, types=types)
        said.update(verdict.rule for verdict in found)
    assert said[""] > 10
    assert len(said) > 6


@pytest.mark.parametrize("length", [126, 127, 128, 253, 254, 255, 256, 300])
def test_levels_that_outgrow_a_byte(length) -> None:
    pairs = [(i, i + 1) for i in range(length)]
    ids, edges = range(length + 2), ends_of(pairs)
    deep, shallow = (plain_bfs(ids, edges, root, directed=False) for root in (0, length + 1))
    middle = plain_bfs(ids, edges, length // 2, directed=False)
    shortcut, leaving = ends_of([*pairs, (0, length)]), ends_of([*pairs, (length + 1, length)])
    for types in TYPES[:4:2]:
        for answers in ([shallow, deep, shallow, middle, middle], [deep, middle, shallow]):
            assert all(verdict.ok for verdict in agreed(answers, [edges], types=types))
            agreed(answers, [shortcut], types=types)
            agreed(answers, [leaving], types=types)


@pytest.mark.parametrize("vertices", [2, 3, 64, 65, 50_000])
def test_long_chains_of_equal_distances(vertices) -> None:
    """A path of no weight; and its far half closed to a circle."""
    at = np.arange(vertices)
    edges = EdgeBlock(at[:-1], at[1:], np.zeros(vertices - 1, np.float32))
    index = VertexIndex.dense(0, vertices)
    distance = np.zeros(vertices, np.float32)
    right = SsspAnswer(0, np.maximum(at - 1, 0), distance, index)
    circle, loop = right.parent.copy(), right.parent.copy()
    circle[vertices // 2] = vertices - 1
    loop[-1] = vertices - 1
    answers = [right, SsspAnswer(0, circle, distance, index), SsspAnswer(0, loop, distance, index)]
    verdicts = agreed(answers, [edges])
    assert [v.rule for v in verdicts] == ["", rules.RULE_CYCLE, rules.RULE_CYCLE]


SCALE = 12


@pytest.fixture(scope="module")
def searched():
    """64 answers of both searches by original id, on the device, and the edges there."""
    kronecker = Kronecker(SCALE)
    ends = [cupy.empty(kronecker.edges, "uint32") for _ in range(2)]
    weight = cupy.empty(kronecker.edges, "float32")
    kronecker.generate_into(0, *ends, weight)
    graph = build_rows(*ends, weight, vertices=kronecker.vertices, orders=("hub", "light"))
    named = {"original_of": graph.original_of}
    searches = {
        "bfs": CudaBfsSearch(graph.out_hub, graph.out_hub, **named),
        "sssp": CudaSsspSearch(graph.out_light, graph.out_light, graph.tuples, **named),
    }
    keys = kronecker.search_keys(64, degree=(graph.internal_of >= 0).get())
    found = {}
    for kernel, search in searches.items():
        found[kernel] = []
        for key in keys:
            tree = search.run_on_device(int(graph.internal_of[key]))
            measure = tree.level if kernel == "bfs" else tree.distance
            found[kernel].append((int(key), *scatter(graph.internal_of, tree.parent, measure)))
    return kronecker, ends, weight, found


@pytest.mark.parametrize("answers", [1, 7, 64])
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_searched_answers(searched, kernel, answers) -> None:
    """What the searches found is right; of some answers one entry is changed."""
    kronecker, ends, weight, found = searched
    kind, index = (
        CudaBfsValidator if kernel == "bfs" else CudaSsspValidator,
        VertexIndex.dense(0, kronecker.vertices),
    )
    rng = np.random.default_rng(answers)
    for harm in (0, 1):
        check, twins = kind(kronecker.vertices, answers), []
        for number, (root, *columns) in enumerate(found[kernel][:answers]):
            parent, measure = (column.copy() for column in columns)
            if harm and number % 3 == 0:
                at = int(rng.integers(kronecker.vertices))
                if number % 2:
                    parent[at] = root
                else:
                    measure[at] = measure[int(rng.integers(kronecker.vertices))]
            check.add(root, parent, measure)
            host, far = parent.get().astype(np.int64), measure.get()
            host[host == 0xFFFFFFFF] = -1
            if kernel == "bfs":
                level = far.astype(np.int32)
                level[far == 255] = -1
                twins.append(BfsAnswer(root, host, level, index))
            else:
                twins.append(SsspAnswer(root, host, far, index))
        block, edges = 10_000, EdgeBlock(*(a.get().astype(np.int64) for a in ends), weight.get())
        for start in range(0, kronecker.edges, block):
            part = slice(start, start + block)
            check.block(*(a[part] for a in ends), weight[part] if kernel == "sssp" else None)
        blocks = cut(edges, range(block, kronecker.edges, block))
        expected = (bfs_cases.validate_bfs if kernel == "bfs" else sssp_cases.validate_sssp)(
            twins, blocks, directed=False
        )
        assert check.finish() == expected
        assert harm or all(verdict.ok for verdict in expected)


@pytest.mark.parametrize("internal", ["int32", "int64"])
@pytest.mark.parametrize("kind", ["uint8", "int32", "float32", "float64", "int64"])
def test_scatter(kind, internal) -> None:
    rng = np.random.default_rng(1)
    internal_of = np.full(1000, -1, internal)
    original_of = np.sort(rng.choice(1000, 600, replace=False))
    internal_of[rng.permutation(original_of)] = np.arange(600)
    parent = rng.integers(0, 1000, 600).astype(np.uint32)
    measure = rng.integers(0, 200, 600).astype(kind)
    unreached = {"uint8": 255, "int32": -1, "int64": INT64_UNREACHED}.get(kind, np.inf)
    parent[::7], measure[::7] = 0xFFFFFFFF, unreached
    has_row = internal_of >= 0
    expected = np.full(1000, 0xFFFFFFFF, np.uint32), np.full(1000, unreached, kind)
    for column, values in zip(expected, (parent, measure), strict=True):
        column[has_row] = values[internal_of[has_row]]
    held = [cupy.asarray(array) for array in (internal_of, parent, measure)]
    found = scatter(*held)
    into = cupy.empty(1000, "uint32"), cupy.empty(1000, kind)
    assert scatter(*held, into) is into
    for columns in (found, into):
        for column, values in zip(columns, expected, strict=True):
            assert column.get().tobytes() == values.tobytes()
    with pytest.raises(UsageError, match="columns to write to"):
        scatter(*held, (into[0][:-1], into[1]))
    with pytest.raises(UsageError, match="one parent and one measure"):
        scatter(held[0], held[1][:-1], held[2])
    with pytest.raises(UsageError, match="no answer has parents of int64"):
        scatter(held[0], held[1].astype("int64"), held[2])


def test_wrong_use_is_refused() -> None:
    none, level = cupy.full(5, 0xFFFFFFFF, "uint32"), cupy.full(5, 255, "uint8")
    far = cupy.full(5, np.inf, "float32")
    check, paths = CudaBfsValidator(5, 1), CudaSsspValidator(5, 2)
    with pytest.raises(UsageError, match="parent has shape"):
        check.add(0, none[:-1], level)
    with pytest.raises(UsageError, match="level has shape"):
        check.add(0, none, level[:-1])
    with pytest.raises(UsageError, match="distance has shape"):
        paths.add(0, none, far[:-1])
    with pytest.raises(UsageError, match="uint32 or int64, not int32"):
        check.add(0, none.astype("int32"), level)
    with pytest.raises(UsageError, match="uint8 or int32, not int64"):
        check.add(0, none, level.astype("int64"))
    with pytest.raises(UsageError, match="not float16"):
        paths.add(0, none, far.astype("float16"))
    check.add(0, none, level)
    paths.add(0, none, far)
    with pytest.raises(UsageError, match="room for 1 answers only"):
        check.add(0, none, level)
    with pytest.raises(UsageError, match="one dtype"):
        paths.add(0, none, far.astype("float64"))
    ends = cupy.arange(3, dtype="uint32")
    with pytest.raises(UsageError, match="one length"):
        check.block(ends, ends[1:])
    with pytest.raises(UsageError, match="uint32 or int64, not int32"):
        check.block(ends.astype("int32"), ends.astype("int32"))
    check.block(ends, ends)
    paths.block(ends, ends, cupy.zeros(3, "float32"))
    with pytest.raises(UsageError, match="before any edges"):
        paths.add(0, none, far)


def test_weights_that_cannot_be_meant_are_refused() -> None:
    edges = sssp_cases.edges_of(sssp_cases.TUPLES, np.float32)
    right = plain_sssp(range(7), edges, 0, directed=False)
    check = CudaSsspValidator(7, 1)
    check.add(0, cupy.asarray(right.parent), cupy.asarray(right.distance))
    ends = cupy.asarray(edges.source), cupy.asarray(edges.target)
    weight = cupy.asarray(edges.weight)
    with pytest.raises(InputError, match="without weights"):
        check.block(*ends)
    for dtype in ("float64", "int64"):
        with pytest.raises(InputError, match=f"weights are {dtype}"):
            check.block(*ends, weight.astype(dtype))
    with pytest.raises(NegativeWeightError, match=r"-9\.0"):
        check.block(*ends, -weight)
    for odd in (np.nan, np.inf):
        with pytest.raises(InputError, match="finite"):
            check.block(*ends, cupy.full_like(weight, odd))
    check.block(*ends, weight)
    assert check.finish()[0].ok
    double = edges.weight.astype(np.float64), sssp_cases.edges_of(sssp_cases.TUPLES, np.int64)
    answer = replace(right, distance=right.distance.astype(np.float64))
    assert agreed([answer], [EdgeBlock(edges.source, edges.target, double[0])])[0].ok
    assert agreed([answer], [double[1]])[0].ok


def test_no_answers_and_no_edges() -> None:
    check = CudaSsspValidator(4, 8)
    check.block(cupy.arange(3), cupy.arange(3), None)
    assert check.finish() == []
    alone = plain_bfs(range(3), ends_of([]), 1, directed=False)
    assert [v.ok for v in agreed([alone] * 5, [])] == [True] * 5
    assert [v.ok for v in agreed([alone] * 5, [ends_of([]), ends_of([(1, 1)])])] == [True] * 5


def test_the_device_says_how_much_is_free() -> None:
    assert largest_batch(1, "bfs") == 64
    with pytest.raises(MemoryBudgetError, match="are free for it"):
        largest_batch(1 << 31, "sssp", beside=1 << 50)


def test_too_little_memory_is_said_and_nothing_is_left() -> None:
    vertices = 1 << 16
    zero = cupy.zeros(vertices, "int64"), cupy.zeros(vertices, "float32")
    ends, weight = cupy.zeros(1000, "uint32"), cupy.zeros(1000, "int8")

    def check() -> None:
        validator = CudaSsspValidator(vertices, 8)
        validator.add(0, *zero)
        validator.block(ends, ends, weight.astype("float32"))
        validator.finish()

    words = "validating these answers does not fit the device"
    assert_refused_without_memory(check, bytes_per_answer(8 * vertices, "sssp"), words)

    def deepen() -> None:
        validator = CudaBfsValidator(vertices, 8)
        at = cupy.arange(vertices)
        parent, level = cupy.maximum(at - 1, 0), at.astype("int32")
        with pytest.raises(MemoryBudgetError, match=words):
            limited(lambda: validator.add(0, parent, level))

    def limited(work) -> None:
        pool = cupy.get_default_memory_pool()
        pool.free_all_blocks()
        pool.set_limit(pool.used_bytes() + bytes_per_answer(8 * vertices, "bfs") + (1 << 20))
        try:
            work()
        finally:
            pool.set_limit(0)

    deepen()
