"""Work that is done while a cluster is harmed, and the answers that it must have."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client

import ooc_graph as og
from ooc_graph.layout.stored import Stored

SCALE = 16
SOURCES = 2000


class Works:
    """Calls of the public functions, each with the digest of its right answer.

    Parameters
    ----------
    folder
        For the graph and the edges that they share.
    """

    NAMES = (
        "build",
        "build of text",
        "bfs",
        "bfs by ranks",
        "bfs to a store",
        "sssp",
        "sssp by ranks",
        "components",
        "many sources",
        "many sources to a store",
        "several sources",
    )

    def __init__(self, folder: Path) -> None:
        self._edges = og.Kronecker(SCALE, edge_factor=8)
        self._graph = og.build(self._edges, folder / "graph.zarr", shards=8)
        self._text = folder / "edges.csv"
        source, target, weight = self._edges.block(0, 60_000)
        table = np.column_stack([source * 7, target * 7])
        lines = [f"{u},{v},{w:.4f}\n" for (u, v), w in zip(table.tolist(), weight, strict=True)]
        self._text.write_text("from,to,weight\n" + "".join(lines))
        self._root = int(self._edges.search_keys(1)[0])
        self._sources = self._edges.search_keys(SOURCES)
        self.calls: dict[str, Callable[..., str]] = {
            "build": self._build,
            "build of text": self._build_of_text,
            "bfs": partial(self._search, og.bfs),
            "bfs by ranks": partial(self._search, og.bfs, exchange="scheduler"),
            "bfs to a store": partial(self._to_store, og.bfs, exchange="scheduler"),
            "sssp": partial(self._search, og.sssp),
            "sssp by ranks": partial(self._search, og.sssp, exchange="scheduler"),
            "components": self._components,
            "many sources": self._many,
            "many sources to a store": self._many_to_store,
            "several sources": self._several,
        }
        assert tuple(self.calls) == self.NAMES
        self.right: dict[str, str] = {}
        for name, call in self.calls.items():
            out = folder / f"right {name}"
            out.mkdir()
            # The exchange between workers needs a client; without one ranks are in this process.
            self.right[name] = call(None, out)

    def _build(self, client: Client | None, out: Path) -> str:
        return og.build(self._edges, out / "g.zarr", shards=8, client=client).identity

    def _build_of_text(self, client: Client | None, out: Path) -> str:
        return og.build(self._text, out / "g.zarr", shards=2, client=client).identity

    def _search(
        self, search: Any, client: Client | None, out: Path, *, exchange: str = "auto"
    ) -> str:
        del out
        return _digest(search(self._graph, self._root, **_where(client, exchange)))

    def _to_store(self, search: Any, client: Client | None, out: Path, *, exchange: str) -> str:
        store = out / "r.zarr"
        return _digest(search(self._graph, self._root, out=store, **_where(client, exchange)))

    def _components(self, client: Client | None, out: Path) -> str:
        return _digest(og.components(self._graph, **_where(client, "scheduler")))

    def _many(self, client: Client | None, out: Path) -> str:
        found = og.johnson(self._graph, self._sources, reduce="eccentricity", client=client)
        return _digest(found)

    def _many_to_store(self, client: Client | None, out: Path) -> str:
        store = out / "r.zarr"
        found = og.multi_source_bfs(self._graph, self._sources, out=store, client=client)
        return _digest(found)

    def _several(self, client: Client | None, out: Path) -> str:
        found = og.bfs(self._graph, self._sources[:40], out=out / "answers", client=client)
        digest = hashlib.sha256()
        for one in found:
            digest.update(_digest(one).encode())
        return digest.hexdigest()


def _where(client: Client | None, exchange: str) -> dict[str, Any]:
    if client is None:
        return {}
    return {"client": client, "exchange": exchange}


def _digest(result: Any) -> str:
    if isinstance(result.columns, Stored):
        return str(result.columns.manifest.sha256)
    digest = hashlib.sha256()
    for name, values in sorted(result.columns.items()):
        digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
