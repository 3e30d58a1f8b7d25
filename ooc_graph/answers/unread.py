"""Columns that stay on the workers which found them until they are read, or used there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ooc_graph.answers.narrow import Narrow
from ooc_graph.answers.scatter import Columns, Ids
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import VERTEX
from ooc_graph.types import AnyArray

if TYPE_CHECKING:
    from ooc_graph.exchange.left import Left, There


@dataclass(frozen=True)
class Described:
    """What is said of columns that workers keep; ``size`` is in vertices."""

    size: int
    dtypes: Mapping[str, np.dtype[Any]]
    first: int | None
    nbytes: int
    attributes: Mapping[str, Any]


class Kept(Protocol):
    """How columns are made of what workers keep of an answer, in a process that has it."""

    def narrow(self, parts: Sequence[Any]) -> Narrow:
        """All columns."""

    def chunks(self, parts: Sequence[Any], spec: ArraySpec) -> list[Any]:
        """Chunks of a column as Dask's delayed objects; ``parts`` are Dask's futures."""


class OnOne:
    """The outcome of one worker's search, whose columns are narrow."""

    def narrow(self, parts: Sequence[Any]) -> Narrow:
        """All columns."""
        (written,) = parts
        narrow: Narrow = written.columns.narrow
        return narrow

    def chunks(self, parts: Sequence[Any], spec: ArraySpec) -> list[Any]:
        """Pieces of a column that is there."""
        (future,) = parts
        piece = import_module("dask").delayed(_piece, pure=True)
        return [piece(future, spec.path, *spec.bounds(index)) for index in range(spec.chunks)]


def _piece(written: Any, name: str, start: int, stop: int) -> AnyArray:
    return np.concatenate(list(written.columns.narrow.parts(name, start, stop)))


class Unread(Columns):
    """Columns on workers; the first that is filled brings all of them, in few bytes.

    Vertices whose ids have no gaps are known without it. ``graph_sha256`` is of the graph that was
    searched, and ``kept`` makes columns of what the workers have. The process that searched has
    ``left``. A copy in another process has ``there`` instead: Dask's futures and the workers'
    addresses. Pickling and tokenizing move no columns. A copy can be read in a task, or with a
    client of the cluster, until the process that searched reads the columns or drops them.
    """

    def __init__(
        self,
        described: Described,
        graph_sha256: str,
        kept: Kept,
        left: Left | None,
        there: tuple[There, ...] = (),
    ) -> None:
        self.described, self.graph_sha256 = described, graph_sha256
        of_rows = np.broadcast_to(np.int32(-1), described.size), np.empty(0, np.int64)
        ids = Ids(*of_rows, described.first, None)
        super().__init__(ids, described.dtypes, described.attributes)
        self.kept, self._left, self._there = kept, left, there
        self._narrow: Narrow | None = None

    @property
    def there(self) -> tuple[There, ...]:
        """Dask's futures of what was found and their workers' addresses; none if it is here."""
        left = self._left
        return self._there if left is None else left.there

    def is_left_by(self, client: Any) -> bool:
        """Whether this process has the columns on workers of a client's cluster."""
        left = self._left  # another thread that reads sets it to None
        return left is not None and left.is_of(client)

    def require_there(self) -> None:
        """Raise ClusterLostError if a worker is lost that has them, or some of them."""
        if (left := self._left) is not None:
            left.require_there()

    def empty(self, names: Sequence[str] = ()) -> dict[str, AnyArray]:
        """No memory yet: it is given to the columns that are read."""
        return {name: np.empty(0, self.dtypes[name]) for name in names or self.dtypes}

    def fill(self, name: str, start: int, out: AnyArray) -> None:
        """Put values of a column into ``out``."""
        self.bring().fill(name, start, out)

    def fill_all(self, name: str, out: AnyArray, threads: int) -> None:
        """Fill ``out`` with a whole column."""
        if name == VERTEX and self.described.first is not None:
            super().fill_all(name, out, threads)
        else:
            self.bring().fill_all(name, out, threads)

    def bring(self) -> Narrow:
        """Bring the columns to this process, if they are not there yet."""
        # Before the columns: another thread sets them first.
        left, there = self._left, self._there
        narrow = self._narrow
        if narrow is None:
            if left is not None:
                narrow = left.fetch()
            else:
                from ooc_graph.exchange.left import fetch_anothers  # noqa: PLC0415 (imports Dask)

                narrow = fetch_anothers(there, self.kept.narrow)
            self._narrow = narrow
            self._left, self._there = None, ()
        assert narrow is not None
        return narrow

    def to_dask_array(self, name: str) -> Any:
        """One column as a Dask array, made where the answer is, in chunks as it would be stored."""
        if (left := self._left) is not None:
            left.require_client()
        there, da = self.there, import_module("dask.array")
        if not there:  # read meanwhile
            out = np.empty(self.size, self.dtypes[name])
            self.fill_all(name, out, 1)
            return da.from_array(out)
        spec = ArraySpec(name, self.size, self.dtypes[name])
        chunks = self.kept.chunks([future for future, _ in there], spec)
        parts = [
            da.from_delayed(chunk, spec.shape(int(np.ptp(spec.bounds(index)))), spec.dtype)
            for index, chunk in enumerate(chunks)
        ]
        return da.concatenate(parts)

    def __deepcopy__(self, memo: Any) -> Unread:
        # A copy in this process is as good a reason to keep them as the original.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Nothing is waited for: Dask pickles on its event loop, too, and with locks that it needs.
        if not (there := self.there):
            return self.bring().__reduce__()
        return Unread, (self.described, self.graph_sha256, self.kept, None, there)
