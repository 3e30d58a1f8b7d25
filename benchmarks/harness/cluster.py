"""Dask workers on this machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client, LocalCluster


@contextmanager
def local_workers(count: int, memory_limit: Any = 0) -> Iterator[Client]:
    """Context with a client of so many workers, processes of one thread each."""
    with (
        LocalCluster(
            n_workers=count, threads_per_worker=1, memory_limit=memory_limit,
            host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        yield client
