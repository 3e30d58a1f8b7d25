"""What Graph500 compiles, in parts of a few seconds each; every part runs tiny work of its kind."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ooc_graph.answers.scatter import Ids, Tree, TreeColumns
from ooc_graph.edges.arrays import ArraySource
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.layout.names import PARENT, id_dtype
from ooc_graph.model.resources import CPU
from ooc_graph.runtime import process
from ooc_graph.runtime.building import build_with_report
from ooc_graph.runtime.compile_ahead import Part
from ooc_graph.runtime.this_process import ThisProcess
from ooc_graph.runtime.validation import TREES, check_edges
from ooc_graph.runtime.warmup import warm_part
from ooc_graph.shards.build_options import BuildOptions
from ooc_graph.types import NoProgress
from ooc_graph.validate import VertexIndex
from ooc_graph.validate.batch import BATCH_ANSWERS


def parts_of_graph500(source: Kronecker, kernels: tuple[str, ...], validate: bool) -> list[Part]:
    """All that a run compiles, the longest first."""
    ids = id_dtype(source.vertices).name
    weights = None if source.weight_dtype is None else source.weight_dtype.name
    checks = [Part(f"check-{kernel}", weights=weights) for kernel in kernels if validate]
    searches = [Part(kernel, False, ids, weights) for kernel in kernels]
    return [*searches, Part("build", weights=weights), Part("generate", weights=weights), *checks]


def compile_part(part: Part) -> None:
    """Compile a part by running something small that needs it; without a turn of its own."""
    weighted = part.weights is not None
    if part.job == "generate":
        for unit in Kronecker(4, weighted=weighted).units(64):
            list(Kronecker(4, weighted=weighted).read(unit, 64))
    elif part.job == "build":
        _build(weighted)
    elif part.job.startswith("check-"):
        check_pair(part.job.removeprefix("check-"), weighted)
    else:
        warm_part(part, process.device())


def _build(weighted: bool) -> None:
    """Build a store as from the generator, whose own kernels are another part."""
    ends = np.arange(16, dtype=np.int64)
    weight, dtype = (np.ones(16, np.float32), np.dtype(np.float32)) if weighted else (None, None)
    source = ArraySource(ends, ends[::-1], weight, False, dtype, id_range=(0, 16))
    with TemporaryDirectory() as folder:
        store, workplace = Path(folder) / "tiny.zarr", ThisProcess(wanted=CPU)
        build_with_report(workplace, source, store, BuildOptions(shards=2), NoProgress())


def check_pair(kernel: str, weighted: bool) -> None:
    """Order and validate the answer for two vertices that edges join, as Graph500 does."""
    # Two edges: a column of one is a case of its own.
    one = np.ones(2, np.float32) if weighted else None
    ends = np.zeros(2, np.int64), np.ones(2, np.int64)
    source = ArraySource(*ends, one, False, None if one is None else one.dtype)
    answer, validator, name = TREES[kernel]
    measure = np.arange(2, dtype=np.int32 if kernel == "bfs" else np.float32)
    tree = Tree(kernel, 0, 0, np.zeros(2, np.uint32), measure)
    columns = TreeColumns(tree, Ids(np.arange(2, dtype=np.int32), np.arange(2), 0, None))
    found = columns.in_memory(1, (PARENT, name))
    for count in (1, 2, BATCH_ANSWERS):  # alone, in a batch and in a full one
        answers = [answer(0, found[PARENT], found[name], VertexIndex.dense(0, 2))] * count
        for verdict in check_edges(validator(answers, directed=False), source, 1):
            verdict.raise_if_failed()
