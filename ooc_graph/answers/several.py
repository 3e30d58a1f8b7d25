"""Answers of searches from several sources, each in a store of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, overload

from ooc_graph.answers.result import TreeResult
from ooc_graph.layout.html_table import html_table
from ooc_graph.types import IntArray

Found = TypeVar("Found", bound=TreeResult)


class Answers(Sequence[Found]):
    """Answers in a folder of stores, in the order of their sources; each is opened on access.

    ``root`` has the sources, int64 (sources,), in host memory. ``folder`` has a store for each,
    named by its source: ``7.zarr``. ``elapsed_s`` are the seconds of the whole call. Each answer
    has the ``elapsed_s`` and ``info`` of its own search; if it was there before, they are None and
    empty.
    """

    def __init__(
        self,
        kind: type[Found],
        folder: Path,
        root: IntArray,
        elapsed_s: float,
        each: Mapping[int, Mapping[str, Any]],
    ) -> None:
        self.folder, self.root, self.elapsed_s = folder, root, elapsed_s
        self._kind, self._each = kind, each

    def __len__(self) -> int:
        return len(self.root)

    @overload
    def __getitem__(self, index: int) -> Found: ...

    @overload
    def __getitem__(self, index: slice) -> list[Found]: ...

    def __getitem__(self, index: int | slice) -> Found | list[Found]:
        """Open one answer, or some, checked as `Result.open` does."""
        if isinstance(index, slice):
            return [self._opened(root) for root in self.root[index].tolist()]
        return self._opened(int(self.root[index]))

    def _opened(self, root: int) -> Found:
        answer = self._kind.open(store_of(self.folder, root))
        return replace(answer, **self._each.get(root, {}))

    def __eq__(self, other: object) -> bool:
        """Whether all answers are the same; only stores that differ are read."""
        if not isinstance(other, Answers) or self._kind is not other._kind:
            return False
        has_same = len(self) == len(other) and bool((self.root == other.root).all())
        return has_same and all(one == two for one, two in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((self._kind.kernel, *self.root.tolist()))

    def __repr__(self) -> str:
        return f"<Answers of {self._kind.kernel} from {len(self):,} sources: {self.folder}>"

    def _repr_html_(self) -> str:
        rows = [("sources", f"{len(self):,}"), ("folder", self.folder)]
        rows.append(("seconds", f"{self.elapsed_s:,.3g}"))
        return html_table(f"Answers of {self._kind.kernel}", rows)


def store_of(folder: Path, root: int) -> Path:
    """Store of the answer from a source, in the folder of several."""
    return folder / f"{root}.zarr"
