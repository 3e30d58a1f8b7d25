"""Shortest paths on graphs bigger than memory, on a Dask cluster.

In the order of the data:

`Kronecker`
    Graph500's generator, bit for bit.
`open_source`
    Edge files of any of `FORMATS`, arrays or Dask collections as an `EdgeSource`.
`build`
    Edges of any kind to a committed Zarr store of CSR shards.
`open`
    Open a built graph (`Graph`).
`bfs`, `sssp`
    Search it; `BfsResult`, `SsspResult` by original id.
`validate`
    Check an answer against the edges by Graph500's rules.
`export`
    Write a stored result as Parquet, CSV, TSV or NumPy file.
`errors`
    Every error has the exit code the command ends with.
"""

from ooc_graph import errors
from ooc_graph.answers.export import export
from ooc_graph.answers.result import BfsResult, Result, SsspResult
from ooc_graph.edges import FORMATS, EdgeSource, open_source
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.session.api import bfs, build, sssp, validate
from ooc_graph.session.api import open_graph as open  # noqa: A004 - og.open reads as it should
from ooc_graph.shards.load import Graph

__version__ = "0.1.0"

__all__ = [
    "FORMATS",
    "BfsResult",
    "EdgeSource",
    "Graph",
    "Kronecker",
    "Result",
    "SsspResult",
    "bfs",
    "build",
    "errors",
    "export",
    "open",
    "open_source",
    "sssp",
    "validate",
]
