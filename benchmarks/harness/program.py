"""The command line of a benchmark, its records and what it prints of them."""

import os
import tempfile
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.tables import show, title_of
from ooc_graph.report.records import append_record, read_records

RECORDS = Path(__file__).resolve().parents[1] / "records"


def words(text: str) -> list[str]:
    """``bfs,sssp``; empty: none."""
    return [word for word in text.split(",") if word]


def scales_of(text: str) -> list[int]:
    """``18-22``, ``20,22`` or both; empty: none."""
    scales: list[int] = []
    for part in words(text):
        first, _, last = part.partition("-")
        scales.extend(range(int(first), int(last or first) + 1))
    return scales


KERNELS = ["bfs", "sssp"]

COMMON: dict[str, tuple[Any, str]] = {
    "commit": (str, "commit of the sources, if git does not know it"),
    "data": (Path, "folder of the shared graphs"),
    "folder": (Path, "where stores are written; a temporary folder there is deleted at the end"),
    "kernels": (words, "bfs, sssp or both"),
    "kinds": (words, "kinds of graphs"),
    "out": (Path, "file or folder that is written"),
    "records": (Path, "file of records"),
    "repeats": (int, "timed runs"),
    "scale": (int, "scale of Graph500's graph"),
    "scales": (scales_of, "scales of Graph500's graphs: 18-22, or 20,22"),
    "searches": (int, "sources of each graph"),
    "sources": (int, "sources that are searched from together"),
    "stored": (int, "how many of the sources have their answers written; all, if not given"),
    "threads": (int, "threads of the CPU"),
    "vertices": (int, "vertices of the random graph"),
}
"""Options that several programs have: type and help."""


def newest(
    path: Path, key: Callable[[dict[str, Any]], Any], wanted: Callable[[dict[str, Any]], object]
) -> list[dict[str, Any]]:
    """The newest record of each key among those wanted, by key; SystemExit: there is none."""
    found = {key(record): record for record in read_records(path) if wanted(record)}
    if not found:
        raise SystemExit("no record to draw")
    return [found[one] for one in sorted(found)]


class Program:
    """A benchmark that is started from the command line, and appends to ``records/{name}.jsonl``.

    ``doc`` is its docstring, whose first line is the description; ``defaults`` are common options
    that it has, with their defaults. Every program has ``--records`` and ``--commit``.
    """

    def __init__(self, name: str, doc: str | None, **defaults: Any) -> None:
        self.name = name
        self.parser = ArgumentParser(
            description=(doc or "").partition("\n")[0],
            formatter_class=ArgumentDefaultsHelpFormatter,
        )
        self.add = self.parser.add_argument
        given = {**defaults, "records": RECORDS / f"{name}.jsonl", "commit": None}
        for option, default in given.items():
            kind, text = COMMON[option]
            self.add(f"--{option}", type=kind, default=default, help=text)
        self.options = Namespace()

    def parse(self) -> Namespace:
        self.options = self.parser.parse_args()
        return self.options

    def given(self, *names: str) -> dict[str, Any]:
        """Some of the options, as parameters of a record."""
        return {name: getattr(self.options, name) for name in names}

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Context with a folder that is deleted at the end, in ``--folder`` if there is one."""
        within = getattr(self.options, "folder", None)
        with tempfile.TemporaryDirectory(dir=within, prefix=f"{self.name}-benchmark-") as name:
            yield Path(name)

    def record(
        self, parameters: Mapping[str, Any], figures: Any, benchmark: str = "", **more: Any
    ) -> None:
        """Print figures with the parameters that they belong to, and append a record of both."""
        self._show(parameters, figures, benchmark)
        self.append(benchmark, parameters=parameters, figures=figures, **more)

    def flat_record(
        self, parameters: Mapping[str, Any], figures: Mapping[str, Any], benchmark: str = ""
    ) -> None:
        """Do the same, with parameters and figures beside each other in the record."""
        self._show(parameters, figures, benchmark)
        self.append(benchmark, **parameters, **figures)

    def append(self, benchmark: str = "", **fields: Any) -> None:
        """Append a record of any fields."""
        start = {"benchmark": benchmark or self.name, "source_commit": self.options.commit}
        append_record(self.options.records, {**start, **fields})

    def _show(self, parameters: Mapping[str, Any], figures: Any, benchmark: str) -> None:
        show(f"{benchmark or self.name}: {title_of(parameters)}", figures)


def load_average() -> dict[str, float]:
    """Figure of how busy the machine is now."""
    return {"load_average": os.getloadavg()[0]}
