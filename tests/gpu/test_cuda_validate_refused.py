"""What the device's validator refuses: wrong use, odd weights, too little memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ooc_graph.errors import InputError, MemoryBudgetError, NegativeWeightError, UsageError
from ooc_graph.types import EdgeBlock
from ooc_graph.validate.cuda_loader import bytes_per_answer, largest_batch
from ooc_graph.validate.cuda_validator import CudaBfsValidator, CudaSsspValidator
from tests.gpu.memory import assert_refused_without_memory
from tests.gpu.validated import agreed, ends_of
from tests.unit import test_validate_sssp as sssp_cases
from tests.unit.test_validate_oracle import plain_bfs, plain_sssp

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")


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


@pytest.mark.parametrize(
    ("kind", "measure", "most"),
    [(CudaBfsValidator, "uint8", 16), (CudaSsspValidator, "float32", 20)],
)
def test_one_answer_takes_few_bytes_a_vertex(kind: type, measure: str, most: int) -> None:
    """All in all, the answer itself too; distances are equal, so that links are followed."""
    vertices, step, slack = 1 << 20, 1 << 15, 2 << 20
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=pool.total_bytes() + most * vertices + slack)
    try:
        parent = cupy.zeros(vertices, "uint32")
        found = cupy.full(vertices, measure == "uint8", measure)
        found[0] = 0
        check = kind(vertices, 1)
        assert check.add(0, parent, found).ok
        for start in range(0, vertices, step):
            target = cupy.arange(start, start + step, dtype="uint32")
            weight = cupy.zeros(step, "float32") if measure == "float32" else None
            check.block(cupy.zeros(step, "uint32"), target, weight)
        (verdict,) = check.finish()
    finally:
        pool.set_limit(size=0)
    assert verdict.ok
    assert (verdict.reached, verdict.edges) == (vertices, vertices - 1)
