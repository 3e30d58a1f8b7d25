"""Vertices that callers name: in lists, in files, or as a number of them to draw."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.errors import InputError, UnknownVertexError, UsageError
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, IntArray

RANDOM_STATE = 1
_LARGEST = int(np.iinfo(np.int64).max)
# Python's own numbers may have underscores and digits of other scripts, too.
_ID = re.compile(r"\+?[0-9]{1,19}", re.ASCII)
_EXPECTED = "expected an integer from 0 to 2^63-1"


def positions_of(graph: Graph, ids: Any, what: str = "sources") -> IntArray:
    """Positions, among all vertices, of a list of original ids, in its order.

    UsageError: they are no integers. InputError: there are none, or one is repeated.
    UnknownVertexError: the graph has no such vertex. Errors call them ``what``.
    """
    wanted = _integers(ids, what)
    if not len(wanted):
        raise InputError(f"no {what} are given", advice="give one vertex at least")
    values, counts = np.unique(wanted, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"vertex {values[counts > 1][0]} is given twice among the {what}")
    originals = None if graph.first_id is not None else graph.original_ids()
    if originals is None:
        positions = wanted - (graph.first_id or 0)
        known = (positions >= 0) & (positions < graph.vertices)
    else:
        positions = np.searchsorted(originals, wanted)
        known = originals[np.minimum(positions, len(originals) - 1)] == wanted
    if not known.all():
        # Its message says which ids there are.
        graph.position_of(int(wanted[~known][0]))
        raise UnknownVertexError(f"vertex {wanted[~known][0]} is not in {graph.name}")
    return positions.astype(np.int64)


def _integers(ids: Any, what: str) -> IntArray:
    try:
        found: AnyArray = np.asarray(ids)
        if found.size == 0 and found.ndim == 1:
            return np.empty(0, np.int64)
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise TypeError
        # Among integers NumPy makes integers of truth values.
        if isinstance(ids, (list, tuple)) and not {bool, np.bool_}.isdisjoint(map(type, ids)):
            raise TypeError
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{what}: give a list of vertex ids, integers") from None
    if found.max() > _LARGEST:
        raise UsageError(f"{what}: {found.max()} is no vertex id, the largest is {_LARGEST}")
    return found.astype(np.int64)


def drawn(graph: Graph, count: int) -> IntArray:
    """Original ids of vertices with edges, always the same, ascending; UsageError if too few."""
    if not 1 <= count <= graph.rows:
        raise UsageError(
            f"{count} sources are asked for; {graph.name} has {graph.rows:,} vertices with edges"
        )
    random = np.random.default_rng(RANDOM_STATE)
    internal = np.sort(random.choice(graph.rows, count, replace=False))
    return np.sort(graph.original_of()[internal])


def ids_in(path: Path) -> IntArray:
    """Vertex ids of a file, each once: ``.npy`` of integers, or text with one on each line.

    Empty lines, those that begin with ``#``, and a byte order mark do not count. InputError: it is
    neither, or has no vertices, or one twice.
    """
    found = _ids_of_array(path) if path.suffix == ".npy" else _ids_of_text(path)
    if not len(found):
        raise InputError("has no vertices", path=path, advice="give one at least")
    values, counts = np.unique(found, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"vertex {values[counts > 1][0]} is given twice", path=path)
    return found


def _ids_of_array(path: Path) -> IntArray:
    from ooc_graph.edges.npyfiles import read_header, read_vector  # noqa: PLC0415 - few do

    part = read_header(str(path))
    if len(part.shape) != 1 or part.dtype.kind not in "iu":
        raise InputError("is no .npy file of a list of integers", path=path)
    found = _integers(read_vector(part), str(path))
    if found.min(initial=0) < 0:
        raise InputError(f"{found.min()} is no vertex id", path=path, advice=_EXPECTED)
    return found


def _ids_of_text(path: Path) -> IntArray:
    try:
        with path.open(encoding="utf-8-sig") as file:
            return np.array(list(_parsed(path, file)), np.int64)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", path=path) from None
    except UnicodeDecodeError:
        raise InputError(
            "is no text", path=path, advice="expected one vertex id on each line, or .npy"
        ) from None


def _parsed(path: Path, lines: Iterable[str]) -> Iterable[int]:
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            if not _ID.fullmatch(text) or int(text) > _LARGEST:
                problem = f"{text[:40]!r} is no vertex id"
                raise InputError(problem, path=path, line=number, advice=_EXPECTED)
            yield int(text)
