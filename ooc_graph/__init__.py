"""Shortest paths on graphs bigger than memory, on a Dask cluster.

In the order of the data:

`Kronecker`
    Graph500's generator, bit for bit.
`open_source`
    Edge files of any of `FORMATS`, arrays or Dask collections, as an `EdgeSource`.
`build`
    Build a Zarr store of CSR shards from edges of any kind.
`open`
    Open a built graph (`Graph`).
`from_edges`
    Make a graph in memory from edges; nothing is written.
`bfs`, `sssp`, `components`
    Search a graph; `BfsResult`, `SsspResult`, `ComponentsResult` by original id. From several
    sources `Answers`, a folder of them.
`pagerank`
    Rank the vertices, as networkx or LDBC Graphalytics define it; `PagerankResult`.
`johnson`, `shortest_paths`
    Distances from all vertices or from many, on weights of any sign; `PairsResult`.
`multi_source_bfs`
    Levels from all vertices or from many; `LevelsResult`.
`plan`
    What a search would keep in memory, and what would stay in the store.
`validate`
    Check an answer against the edges: trees by Graph500's rules, components by their own.
`release`
    Free the graphs that are kept loaded between searches.
`export`
    Write a stored result as Parquet, CSV, TSV or NumPy file.
`local_cluster`, `joined_cluster`
    A client of workers on this machine, or of a cluster that was started elsewhere.
`dask_config`
    Dask's configuration for workers of this package.
`tls_security`
    Certificates for a ``distributed.Client`` of a ``tls://`` scheduler.
`exit_on_sigterm`
    Context in which SIGTERM ends the process cleaned up, as the command does.
`errors`
    The errors, each with the exit code of the command.
`FallbackWarning`
    Warned once if ``device="auto"`` continues without the GPU, or arcs stay in the store.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ooc_graph import errors
from ooc_graph.forked import require_whole_imports
from ooc_graph.garbage import uncollected

if TYPE_CHECKING:
    from ooc_graph.answers.export import export
    from ooc_graph.answers.info import Info
    from ooc_graph.answers.matrix import LevelsResult, PairsResult
    from ooc_graph.answers.pagerank import PagerankResult
    from ooc_graph.answers.result import BfsResult, ComponentsResult, Result, SsspResult
    from ooc_graph.answers.several import Answers
    from ooc_graph.api.components import components
    from ooc_graph.api.graphs import build
    from ooc_graph.api.graphs import open_graph as open  # noqa: A004 - og.open reads as it should
    from ooc_graph.api.in_memory import from_edges
    from ooc_graph.api.many import johnson, multi_source_bfs, shortest_paths
    from ooc_graph.api.pagerank import pagerank
    from ooc_graph.api.plan import plan
    from ooc_graph.api.session import release
    from ooc_graph.api.single import bfs
    from ooc_graph.api.sssp import sssp
    from ooc_graph.api.validate import validate
    from ooc_graph.edges.interface import EdgeSource
    from ooc_graph.edges.kronecker import Kronecker
    from ooc_graph.edges.opening import FORMATS, open_source
    from ooc_graph.errors import FallbackWarning
    from ooc_graph.runtime.cluster import local_cluster
    from ooc_graph.runtime.dask_configuration import dask_config
    from ooc_graph.runtime.joined_cluster import joined_cluster, tls_security
    from ooc_graph.runtime.signals import exit_on_sigterm
    from ooc_graph.shards.load import Graph

__version__ = "0.1.0"

__all__ = [
    "FORMATS",
    "Answers",
    "BfsResult",
    "ComponentsResult",
    "EdgeSource",
    "FallbackWarning",
    "Graph",
    "Info",
    "Kronecker",
    "LevelsResult",
    "PagerankResult",
    "PairsResult",
    "Result",
    "SsspResult",
    "bfs",
    "build",
    "components",
    "dask_config",
    "errors",
    "exit_on_sigterm",
    "export",
    "from_edges",
    "johnson",
    "joined_cluster",
    "local_cluster",
    "multi_source_bfs",
    "open",
    "open_source",
    "pagerank",
    "plan",
    "release",
    "shortest_paths",
    "sssp",
    "tls_security",
    "validate",
]

# Modules of the names above. They are imported when they are asked for: that takes seconds, and
# the command must handle Ctrl-C before.
_MODULES = {
    "answers.export": "export",
    "answers.info": "Info",
    "answers.matrix": "LevelsResult PairsResult",
    "answers.pagerank": "PagerankResult",
    "answers.result": "BfsResult ComponentsResult Result SsspResult",
    "answers.several": "Answers",
    "edges.interface": "EdgeSource",
    "errors": "FallbackWarning",
    "edges.kronecker": "Kronecker",
    "edges.opening": "FORMATS open_source",
    "api.components": "components",
    "api.graphs": "build open",
    "api.in_memory": "from_edges",
    "api.many": "johnson multi_source_bfs shortest_paths",
    "api.pagerank": "pagerank",
    "api.plan": "plan",
    "api.session": "release",
    "api.single": "bfs",
    "api.sssp": "sssp",
    "api.validate": "validate",
    "runtime.cluster": "local_cluster",
    "runtime.dask_configuration": "dask_config",
    "runtime.joined_cluster": "joined_cluster tls_security",
    "runtime.signals": "exit_on_sigterm",
    "shards.load": "Graph",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}
# As it is called there.
_NAME_THERE = {"open": "open_graph"}


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_whole_imports()
    with uncollected():
        module = import_module(f"{__name__}.{_MODULE_OF[name]}")
    found = getattr(module, _NAME_THERE.get(name, name))
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


class _Package(ModuleType):
    """The package: its ``validate`` is the function, though a package in it has the same name."""

    def __setattr__(self, name: str, value: object) -> None:
        """Set what is no package of that name, as the import system does with all it imports."""
        if name != "validate" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Import it: functions of a notebook that name it travel to workers."""
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package
