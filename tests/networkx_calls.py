"""networkx with our backend, also where the package is not installed with its entry points.

As a plugin (``-p tests.networkx_calls``) it does the same for networkx' own tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import networkx as nx
from networkx.utils import backends

from ooc_graph.networkx_backend.info import NAME, get_info

_VALUE = "ooc_graph.networkx_backend.interface:backend"

if NAME not in backends.backends:
    # As networkx does it when it is imported, and its own tests for one more backend.
    backends.backends[NAME] = EntryPoint(NAME, _VALUE, "networkx.backends")
    backends.backend_info[NAME] = get_info()
    nx.config.backends = nx.utils.Config(**{**nx.config.backends, NAME: nx.utils.Config()})
    dispatchable = backends._dispatchable
    dispatchable.__call__ = dispatchable._call_if_any_backends_installed

# It warns at each use of a converted graph.
nx.config.warnings_to_ignore.add("cache")


def ours(name: str, *arguments: Any, **options: Any) -> Any:
    """What a function of networkx gives by our backend; iterators as lists."""
    return _read(getattr(nx, name)(*arguments, **options, backend=NAME))


def theirs(name: str, *arguments: Any, **options: Any) -> Any:
    """What networkx itself gives; iterators as lists."""
    return _read(getattr(nx, name)(*arguments, **options, backend="networkx"))


def _read(found: Any) -> Any:
    return list(found) if isinstance(found, Iterator) else found
