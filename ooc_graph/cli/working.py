"""What a working command needs: a cluster, progress, a memory limit, places to write to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from ooc_graph.errors import OutputExistsError, UsageError
from ooc_graph.layout.commit import refuse_inside_store
from ooc_graph.report.progress import Progress
from ooc_graph.session.machine import default_limit_bytes, parse_bytes


@contextmanager
def working(common: dict[str, Any]) -> Iterator[tuple[Any, Progress]]:
    """Cluster and progress of a working command."""
    from ooc_graph.session.cluster import joined_cluster  # noqa: PLC0415

    if common["scheduler"] and common["workers"] is not None:
        raise UsageError("--workers starts a cluster and --scheduler joins one: give one of them")
    if common["tls"] and not common["scheduler"]:
        raise UsageError("--tls is for a cluster to join: give --scheduler tls://HOST:PORT too")
    parse_bytes(common["memory_limit"])
    cluster = (
        joined_cluster(common["scheduler"], common["tls"])
        if common["scheduler"]
        else _started(common["device"], common["workers"])
    )
    with cluster as client, Progress(common["quiet"]) as progress:
        yield client, progress


def _started(device: str, workers: int | None) -> AbstractContextManager[Any]:
    """Cluster on this machine: of CUDA workers where they are asked for, or there for ``auto``."""
    from ooc_graph.session.cluster import local_cluster, local_cuda_cluster  # noqa: PLC0415
    from ooc_graph.session.devices import CUDA, choose_here  # noqa: PLC0415

    if choose_here(device).name == CUDA:
        return local_cuda_cluster(workers)
    return local_cluster(1 if workers is None else workers)


@contextmanager
def empty_folder_removed(folder: Path) -> Iterator[None]:
    """A refused run leaves no empty folder behind; one that was there before stays."""
    was_there = folder.exists()
    try:
        yield
    finally:
        if not was_there:
            # It is kept where something is in it.
            with suppress(OSError):
                folder.rmdir()


def limit(common: dict[str, Any], client: Any) -> int | None:
    """Limit for what this command starts; other people's clusters bring their own."""
    limit = parse_bytes(common["memory_limit"])
    if limit is None and not common["scheduler"] and client is not None:
        return default_limit_bytes()
    return limit


def refuse_existing(out: Path, overwrite: bool) -> None:
    """Before a cluster is started; the commit checks again."""
    if out.exists() and not overwrite:
        raise OutputExistsError(f"{out}: exists already; give --overwrite to replace it")


def refuse_out(out: Path, overwrite: bool) -> None:
    """As `refuse_existing`, and where there is no folder to write into."""
    if not out.absolute().parent.is_dir():
        raise OutputExistsError(f"{out.parent}: no such folder to write {out.name} into")
    refuse_inside_store(out)
    refuse_existing(out, overwrite)
