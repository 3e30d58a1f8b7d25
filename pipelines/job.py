"""What the pipelines share: their common arguments, a cluster when one is needed, exit codes."""

from __future__ import annotations

import argparse
import errno
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, cast

from distributed import Client

import ooc_graph as og

RETRY = 75


def add_common(parser: argparse.ArgumentParser) -> None:
    """Arguments that every pipeline has."""
    parser.add_argument("--folder", type=Path, required=True, help="where everything goes")
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace a graph of something else, and its answers",
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes to start")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="join this cluster (tcp:// tls://)")
    parser.add_argument("--tls", metavar="CA,CERT,KEY", help="files for a tls:// scheduler")
    parser.add_argument("--memory-limit", metavar="SIZE", help="for all workers together: 4GiB")


class Job:
    """One run of a pipeline; its cluster starts when the first unfinished stage asks for it."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args, self._stack = args, ExitStack()
        self._done: set[str] = set()
        # What cannot be is refused before anything begins.
        og.tls_security(args.scheduler, args.tls)
        if args.workers < 1:
            raise og.errors.UsageError(f"--workers {args.workers}: give at least 1")

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @cached_property
    def where(self) -> dict[str, Any]:
        """``client=`` and ``memory_limit=`` for the functions of `ooc_graph`."""
        return {"client": self._client(), "memory_limit": self._args.memory_limit}

    def _client(self) -> Client:
        address, tls = self._args.scheduler, self._args.tls
        cluster = (
            og.joined_cluster(address, tls) if address else og.local_cluster(self._args.workers)
        )
        return self._stack.enter_context(cluster)

    def graph(self, source: og.EdgeSource, asked: dict[str, Any]) -> og.Graph:
        """The graph in the folder; built if there is none, or if what it was built from changed.

        Parameters
        ----------
        source
            The edges.
        asked
            What they are by the command line, whatever the content of files.

        Raises
        ------
        OutputExistsError
            The graph was built from something else, and ``--overwrite`` was not given.
        """
        store, note = self._args.folder / "graph.zarr", self._args.folder / "job.json"
        graph = og.open(store) if store.exists() else None
        found = wanted = _as_read(source.describe())
        if graph is not None:
            found = graph.attributes["source"]
        differing = _differing(found, wanted)
        is_same = _read(note) == _as_read(asked)
        if differing and not is_same and not self._args.overwrite:
            raise og.errors.OutputExistsError(
                f"{store}: was built from something else (it differs in: {differing}); give "
                "another --folder, or --overwrite to replace it and all that follows from it"
            )
        # First: killed after it, the same command builds again.
        _write(note, asked)
        if graph is not None and not differing:
            print(f"build {store}: finished already, skipped", flush=True)
            return graph
        if differing:
            print(f"build {store}: {differing} changed, built again", flush=True)
        build = self.stage(
            f"build {store}", lambda: og.build(source, store, overwrite=True, **self.where)
        )
        return cast(og.Graph, build)

    def once(self, name: str, function: Callable[[], Any]) -> None:
        """Do a stage unless this run has done one of that name already."""
        if name not in self._done:
            self.stage(name, function)
            self._done.add(name)

    def stage(self, name: str, function: Callable[[], Any]) -> Any:
        """Do a stage and say so."""
        print(f"{name}: begun", flush=True)
        begun = perf_counter()
        done = function()
        print(f"{name}: done in {perf_counter() - begun:.1f} s", flush=True)
        return done


def _as_read(document: dict[str, Any]) -> Any:
    """What a document is once it was written as JSON and read."""
    return json.loads(json.dumps(document))


def _differing(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """What two descriptions of edges differ in: names of files and of other things, if any."""
    before, now = found.get("files", []), wanted.get("files", [])
    files = [file["name"] for file in [*before, *now] if file not in before or file not in now]
    keys = [key for key in {**wanted, **found} if wanted.get(key) != found.get(key)]
    return ", ".join(dict.fromkeys(files + [key for key in keys if key != "files" or not files]))


def finished_result(path: Path, graph: og.Graph, root: int) -> og.Result | None:
    """The answer of an earlier run for this graph and root, or None if there is none."""
    if not path.exists():
        return None
    result = og.Result.open(path)
    made_from = result.to_zarr().attrs["ooc_graph"]["graph_sha256"]
    return result if (made_from, result.root) == (graph.identity, root) else None


def noted(note: Path, graph: og.Graph) -> dict[str, Any] | None:
    """What `write_note` wrote for this graph, or None if it did not, or for another one."""
    found: dict[str, Any] = _read(note) or {}
    return found if found.get("graph_sha256") == graph.identity else None


def write_note(note: Path, graph: og.Graph, **facts: Any) -> None:
    """Say that what the note stands for is finished, and for which graph."""
    _write(note, {"graph_sha256": graph.identity, **facts})


def _read(path: Path) -> Any:
    """What `_write` wrote; None if there is nothing that can be read."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _write(path: Path, document: dict[str, Any]) -> None:
    """Write JSON, whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(document) + "\n")
    partial.replace(path)


def run(pipeline: Callable[[], None]) -> None:
    """Run a pipeline and exit: 0 done, 1 failed, 2 refused, 75 try again, 143 SIGTERM."""
    try:
        with og.exit_on_sigterm():
            pipeline()
    except og.errors.OocGraphError as error:
        _end(str(error), error.exit_code)
    except KeyboardInterrupt:
        _end("interrupted", 130)
    except OSError as error:
        _end(str(error), RETRY if error.errno in (errno.ENOSPC, errno.EDQUOT) else 1)


def _end(message: str, code: int) -> None:
    print(f"{Path(sys.argv[0]).name}: {message}", file=sys.stderr)
    sys.exit(code)
