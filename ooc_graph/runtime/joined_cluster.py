"""A cluster that was started elsewhere, and the certificates towards it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from distributed import Client
from distributed.comm.addressing import parse_address, parse_host_port
from distributed.comm.registry import get_backend
from distributed.security import Security

from ooc_graph.errors import ClusterLostError, UsageError
from ooc_graph.exchange.worker_states import within

CONNECT_S = 30.0
# What Dask needs to close a cluster whose workers did not start.
GRACE_S = 10.0


@contextmanager
def joined_cluster(address: str, tls: str | None = None) -> Iterator[Client]:
    """A client of a cluster that was started elsewhere.

    Parameters
    ----------
    address
        Of its scheduler.
    tls
        See `tls_security`.

    Raises
    ------
    UsageError
        If the address is not valid, or needs certificates that are missing.
    ClusterLostError
        If no scheduler answers there.
    """
    security = tls_security(address, tls)
    try:
        # Before a client is made: one that fails half made complains when it is collected.
        scheme, location = parse_address(address, strict=True)
        get_backend(scheme)
        host, port = parse_host_port(location)
    except (ValueError, ImportError) as error:
        raise UsageError(f"--scheduler {address}: {error}; give tcp://HOST:PORT") from error
    if scheme == "inproc" or not host or not port:
        raise UsageError(f"--scheduler {address}: names no host and port; give tcp://HOST:PORT")
    # Of a scheduler that is lost it prints tracebacks; the error says so in one line.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    connect = partial(Client, address, security=security, timeout=CONNECT_S)
    try:
        client = within(CONNECT_S + GRACE_S, connect)
    except (OSError, MemoryError) as error:
        # What is no scheduler may send anything, of any length.
        why = str(error) or "it takes connections and does not answer"
        raise ClusterLostError(f"no Dask scheduler answers at {address}: {why}") from error
    except Exception as error:
        # Of a transport that is not installed whole.
        raise UsageError(f"--scheduler {address}: {error}; give tcp://HOST:PORT") from error
    with client:
        yield client


def tls_security(address: str | None, files: str | None) -> Security | None:
    """TLS towards a scheduler, from the options ``--scheduler`` and ``--tls``.

    Parameters
    ----------
    address
        Of the scheduler; None if there is none to join.
    files
        ``CA,CERT,KEY``: three files with the authority's certificate, one's own and its key.

    Returns
    -------
    An argument for ``distributed.Client``; None without files.

    Raises
    ------
    UsageError
        If these are not three files, or there are none for an address that begins with ``tls://``.
    """
    if files is None:
        if (address or "").startswith("tls://"):
            raise UsageError(f"--scheduler {address}: give the certificates too, --tls CA,CERT,KEY")
        return None
    names = files.split(",")
    if len(names) != 3 or not all(Path(name).is_file() for name in names):
        raise UsageError(f"--tls {files}: give three files, CA,CERT,KEY")
    ca, cert, key = names
    return Security(
        tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key, require_encryption=True
    )
