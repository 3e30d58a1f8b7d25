"""The command ``convert``: edges of files or of a graph store as one file of another format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from ooc_graph.answers.export import NPZ, Table, check_target, text_lines, write_tables
from ooc_graph.cli import options as shared
from ooc_graph.cli.graphs import edges_from, read_options
from ooc_graph.cli.groups import command
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.errors import UsageError
from ooc_graph.layout.kinds import kind_of
from ooc_graph.layout.whole_file import whole_file
from ooc_graph.remote.urls import is_url
from ooc_graph.report.progress import Progress
from ooc_graph.runtime.stored_edges import StoredEdges
from ooc_graph.shards.load import Graph
from ooc_graph.types import Advance, EdgeBlock

_BLOCK_EDGES = 1 << 20
MTX = "mtx"
"""Ending of Matrix Market files."""


@command("""\
ooc-graph convert flights.csv flights.parquet
ooc-graph convert flights.zarr edges.mtx""")
@click.argument(
    "sources",
    nargs=-1,
    required=True,
    metavar="SOURCE...",
    shell_complete=shared.complete_path,
)
@click.argument("out", type=shared.PATH, metavar="FILE")
@read_options
@shared.quiet_option
@shared.overwrite_option
def convert(
    sources: tuple[str, ...], out: Path, quiet: bool, overwrite: bool, **given: Any
) -> None:
    """Write edges as FILE.{parquet,csv,tsv,npz,mtx}.

    They are read from edge files or from a graph store. The columns are source, target and, if
    there are weights, weight. A graph store gives each undirected edge once; it has no self-loops
    and no duplicates. Only .mtx (Matrix Market) says whether edges are directed, and has vertices
    without edges: read directed edges of other files with --directed. Rows of .mtx count from 1:
    they are the ids, or the ids + 1 if there is a vertex 0.
    """
    check_target(out, overwrite=overwrite, more=(MTX,))
    edges = _opened(sources, given)
    with Progress(quiet) as progress:
        count = _write(edges, out, progress)
    kind = "directed" if edges.directed else "undirected"
    is_unsaid = edges.directed and out.suffix != f".{MTX}"
    more = " (the file does not say so: read it with --directed)" if is_unsaid else ""
    click.echo(f"{out}: {count:,} {kind} edges{more}")


def _opened(sources: tuple[str, ...], given: dict[str, Any]) -> EdgeSource | StoredEdges:
    first = sources[0]
    is_store = first.rstrip("/").endswith(".zarr") if is_url(first) else kind_of(Path(first))
    if len(sources) > 1 or not first or not is_store:
        return edges_from(sources, given)
    if any(value is not None for value in given.values()):
        raise UsageError(f"{first}: is a store, and options that say how files are read are given")
    graph = Graph.open(first)
    return StoredEdges(graph, graph.weighted)


def _write(edges: EdgeSource | StoredEdges, out: Path, progress: Progress) -> int:
    """Write all edges to a file, and count them; NumPy's needs memory for all of them."""
    dtype, count = _weight_dtype(edges, progress), 0
    extent = _extent(edges, progress) if out.suffix == f".{MTX}" else None

    def tables(advance: Advance) -> Iterator[Table]:
        nonlocal count
        empty = np.empty(0, np.int64)
        yield _table(EdgeBlock(empty, empty, empty), dtype)
        for block in _blocks(edges, advance):
            count += len(block)
            yield _table(block, dtype)
        if not isinstance(edges, StoredEdges):
            edges.check_totals(count)

    with progress.stage("converting", edges.edges, "edges") as bar:
        if extent is not None:
            with whole_file(out) as partial:
                _write_matrix(edges, dtype, tables(bar.advance), partial, extent)
        elif out.suffix == f".{NPZ}":
            parts = list(tables(bar.advance))
            columns: dict[str, Any] = {
                name: np.concatenate([part[name] for part in parts]) for name in parts[0]
            }
            with whole_file(out) as partial:
                np.savez(partial, **columns)
        else:
            write_tables(tables(bar.advance), out)
    return count


def _write_matrix(
    edges: EdgeSource | StoredEdges,
    dtype: np.dtype[Any] | None,
    tables: Iterator[Table],
    path: Path,
    extent: tuple[int, int, int],
) -> None:
    """Write tables of edges as a matrix, which is symmetric if they are undirected."""
    least, most, count = extent
    shift = int(least == 0)
    size = most + shift
    if size > np.iinfo(np.int64).max:
        raise UsageError(f"vertices 0 and {most} do not both fit a Matrix Market file")
    field = "pattern" if dtype is None else "real" if dtype.kind == "f" else "integer"
    symmetry = "general" if edges.directed else "symmetric"
    with path.open("w", newline="\n") as file:
        file.write(f"%%MatrixMarket matrix coordinate {field} {symmetry}\n{size} {size} {count}\n")
        for table in tables:
            ends = table["source"] + shift, table["target"] + shift
            if not edges.directed:  # entries are in the lower triangle
                ends = np.maximum(*ends), np.minimum(*ends)
            file.writelines(text_lines(table | {"source": ends[0], "target": ends[1]}, " "))


def _extent(edges: EdgeSource | StoredEdges, progress: Progress) -> tuple[int, int, int]:
    """An id that none is below, the largest, and the number of edges; they may have to be read."""
    if isinstance(edges, StoredEdges):
        ids = edges.graph.original_ids()
        return int(ids.min(initial=1)), int(ids.max(initial=0)), edges.edges
    if edges.id_range is not None and edges.edges is not None:
        first, vertices = edges.id_range
        return first, first + vertices - 1, edges.edges
    least, most, count = 1, 0, 0
    for ids in edges.vertex_blocks():
        least, most = int(ids.min(initial=least)), int(ids.max(initial=most))
    with progress.stage("finding the largest id", edges.edges, "edges") as bar:
        for block in _blocks(edges, bar.advance):
            count += len(block)
            for ids in (block.source, block.target):
                least, most = int(ids.min(initial=least)), int(ids.max(initial=most))
    return least, most, count


def _blocks(edges: EdgeSource | StoredEdges, advance: Advance) -> Iterator[EdgeBlock]:
    for unit in edges.units(_BLOCK_EDGES):
        for block in edges.read(unit, _BLOCK_EDGES):
            yield block
            advance(len(block))


def _weight_dtype(edges: EdgeSource | StoredEdges, progress: Progress) -> np.dtype[Any] | None:
    """Type of all weights, for which text may have to be read to the first that is no integer."""
    if not edges.weighted:
        return None
    known = edges.graph.weight_dtype if isinstance(edges, StoredEdges) else edges.weight_dtype
    if known is not None:
        return known
    with progress.stage("reading weights", edges.edges, "edges") as bar:
        blocks = _blocks(edges, bar.advance)
        found = (block.weight.dtype for block in blocks if block.weight is not None)
        return next((dtype for dtype in found if dtype.kind == "f"), np.dtype(np.int64))


def _table(block: EdgeBlock, dtype: np.dtype[Any] | None) -> Table:
    table = {"source": block.source, "target": block.target}
    if dtype is not None and block.weight is not None:
        table["weight"] = block.weight.astype(dtype, copy=False)
    return table
