"""Connections between workers of one host, which serve one attempt after the other."""

from __future__ import annotations

import socket
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
from distributed import Client

from ooc_graph.exchange import doors, links
from ooc_graph.exchange.interface import Share
from ooc_graph.exchange.links import Link, Links
from ooc_graph.exchange.resident import PLUGIN_NAME
from ooc_graph.exchange.scheduler import run
from tests.toy_ranks import Seen, addresses, make_sharing, start


def count_dials(dask_worker: Any) -> None:
    dial, dask_worker.dials = doors._dialled, 0

    def counted(*given: Any) -> Link:
        dask_worker.dials += 1
        return dial(*given)

    doors._dialled = counted


def dials(dask_worker: Any) -> int:
    return int(dask_worker.dials)


def kept(dask_worker: Any) -> Links:
    links: Links = dask_worker.plugins[PLUGIN_NAME]._links
    return links


def end_one(dask_worker: Any) -> None:
    kept(dask_worker).popitem()[1].close()


def disturb_one(dask_worker: Any) -> None:
    next(iter(kept(dask_worker).values())).send(b"for nobody")


def failing() -> Generator[Any, Any, None]:
    yield Share((1,))
    raise ValueError("on purpose")


def make_failing(mine: Sequence[int]) -> nullcontext[tuple[dict[int, Any], Seen]]:
    return nullcontext(({rank: failing() for rank in mine}, Seen()))


def test_connections_serve_the_next_attempt() -> None:
    with start(3) as cluster, Client(cluster) as client:
        client.run(count_dials)
        first, *_ = addresses(client)

        def dialled(chosen: Sequence[str] | None = None) -> int:
            before = sum(client.run(dials).values())
            results, stats = run(client, partial(make_sharing, 2), 3, workers=chosen)
            assert results[0][0] == [(3, 0, 3), (3, 3, 3)]
            assert stats.links == stats.links_shared
            return sum(client.run(dials).values()) - before

        assert [dialled(), dialled()] == [3, 0]
        # What an attempt has no use for is there for the next.
        assert [dialled(addresses(client)[:2]), dialled()] == [0, 0]
        for spoil in (end_one, disturb_one):
            client.run(spoil, workers=[first])
            assert [dialled(), dialled()] == [1, 0]
        with pytest.raises(ValueError, match="on purpose"):
            run(client, make_failing, 3)
        assert dialled() == 3
        assert [
            len(links) for links in client.run(lambda dask_worker: list(kept(dask_worker))).values()
        ] == [2, 2, 2]


def test_the_oldest_go_if_too_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts that overlap have their own, and all of them are kept afterwards."""
    monkeypatch.setattr(links, "MOST_KEPT", 2)
    pairs = [socket.socketpair() for _ in range(4)]
    made = {bytes([at]): Link(ours, bytes([at])) for at, (ours, _) in enumerate(pairs)}
    held: Links = {}
    for name, link in made.items():
        links.keep(held, {name: link})
    assert list(held) == [b"\2", b"\3"]
    assert [link.fileno() < 0 for link in made.values()] == [True, True, False, False]
    for link in held.values():
        link.close()
    for _, theirs in pairs:
        theirs.close()
