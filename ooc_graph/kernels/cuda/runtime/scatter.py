"""Answers on a CUDA device, from the order of internal ids to that of original ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda.runtime.modules import cuda, launch, within_memory
from ooc_graph.types import INT64_UNREACHED

_UNREACHED: dict[str, int | float] = {
    "uint8": 255,
    "int32": -1,
    "float32": np.inf,
    "float64": np.inf,
    "int64": INT64_UNREACHED,
}


def scatter(
    internal_of: Any, parent: Any, measure: Any, into: tuple[Any, Any] | None = None
) -> tuple[Any, Any]:
    """Columns of an answer by original id, (vertices,); does not wait.

    All arrays are on the device. ``internal_of``, int32 or int64 (vertices,), is -1 for vertices
    without a row, which are unreached. ``parent``, uint32 (rows,), are original ids by internal id,
    all ones where unreached. ``measure``, (rows,), are levels, uint8 with 255 for unreached or
    int32 with -1; or distances, float32 or float64 with +inf or int64 with ``INT64_UNREACHED``. The
    columns have the types of both, and are written over those of a former answer if ``into`` has
    such.
    """
    cupy = cuda()
    if parent.dtype != np.uint32 or measure.dtype.name not in _UNREACHED:
        raise UsageError(f"no answer has parents of {parent.dtype} and {measure.dtype} beside them")
    if internal_of.dtype not in (np.int32, np.int64) or len(parent) != len(measure):
        raise UsageError("an answer has one parent and one measure for each internal id")
    vertices = len(internal_of)
    with within_memory("the answer by original ids"):
        if into is None:
            into = cupy.empty(vertices, np.uint32), cupy.empty(vertices, measure.dtype)
        arrays = [cupy.ascontiguousarray(array) for array in (internal_of, parent, measure)]
    wanted = [(vertices,), np.uint32, (vertices,), measure.dtype]
    if [into[0].shape, into[0].dtype, into[1].shape, into[1].dtype] != wanted:
        raise UsageError("the columns to write to are not those of an answer of this graph")
    bits = np.dtype(f"u{measure.dtype.itemsize}")
    constants = {"ID": f"u{8 * internal_of.dtype.itemsize}", "MEASURE": f"u{8 * bits.itemsize}"}
    unreached = np.array([_UNREACHED[measure.dtype.name]], measure.dtype).view(bits)[0]
    arguments = np.uint64(vertices), *arrays, unreached, *into
    name = "scatter.cu", "to_original"
    launch(*name, vertices, *arguments, constants=constants, most=1 << 16)
    return into
