"""Memory of one library's graph and searches, in a process that has nothing else in it.

For peers.py, which leaves the edges, or for ours the store, in a folder: bytes of the graph, and
for each kernel the peak above it during the searches, which holds the library's answer. Of ours,
rows in another order (heads) belong to that as well. The libraries have searched a tiny graph
before, so that code is not counted. The system keeps the peak (VmHWM, set back through clear_refs);
Linux alone has it.
"""

import ctypes
import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from peers_adapters import Peer
from peers_graphs import Edges
from peers_ours import Ours

from ooc_graph.runtime import engine_cache

HAS_PEAK = Path("/proc/self/clear_refs").exists()
_SET_PEAK_BACK = "5"


def of_peer(kind: type[Peer], kernels: Sequence[str], folder: Path, sources: list[int]) -> Any:
    """Build and search with one of the other libraries."""
    peer = kind()
    weighted, u = Edges.load(folder).w is not None, np.arange(3)
    # A tiny graph first: code is not counted.
    peer.build(Edges(4, False, u, u + 1, np.ones(3, np.float32) if weighted else None))
    for kernel in kernels:
        getattr(peer, kernel)(0)
    before = _resident_bytes()
    edges = Edges.load(folder)
    peer.build(edges)
    del edges
    built = _resident_bytes()
    peaks = {kernel: _peak_bytes(peer, kernel, sources) - built for kernel in kernels}
    return {"graph_bytes": built - before, "search_bytes": peaks}


def of_ours(method: str, kernel: str, folder: Path, sources: list[int]) -> Any:
    """Load and search; the graph is what was stored, all that is made of it is the search's."""
    ours = Ours(folder / "graph.zarr", method)
    graph = ours.graph_bytes(kernel)
    # Once for the code that it brings into memory.
    getattr(ours, kernel)(sources[0])
    engine_cache.release()
    before = _resident_bytes()
    peak = _peak_bytes(ours, kernel, sources) - before - graph
    return {"graph_bytes": graph, "search_bytes": {kernel: peak}}


def _peak_bytes(adapter: Any, kernel: str, sources: Sequence[int]) -> int:
    """Most memory of this process during the searches."""
    _resident_bytes()
    Path("/proc/self/clear_refs").write_text(_SET_PEAK_BACK)
    for source in sources:
        getattr(adapter, kernel)(source)
    return _status_bytes("VmHWM")


def _resident_bytes() -> int:
    """Memory of this process now, once what is free is given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return _status_bytes("VmRSS")


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")
