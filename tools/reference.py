"""Parts of the documentation that follow from the code.

    python -m tools.reference errors

prints one of them; `make docs` puts all of them where pages say ``<!-- generated: NAME -->``.
"""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ooc_graph as og
from ooc_graph import errors
from ooc_graph.layout.names import FROM_ONE, HUB, ORDER_OF
from ooc_graph.model.request import ON_CUDA, Job, Request
from ooc_graph.model.resources import CPU, CUDA, NO_LIMITS, Device, Resources
from ooc_graph.model.strategy import Strategy
from ooc_graph.search.candidates import CANDIDATES, MANY
from ooc_graph.search.trees import ALGORITHMS

ROOT = Path(__file__).parents[1]


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    names = list(head)
    lines = [names, ["---"] * len(names), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def error_classes() -> list[type[errors.OocGraphError]]:
    """Every error of the package, in the order of its module."""
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind)]
    return [kind for kind in kinds if issubclass(kind, errors.OocGraphError)]


def error_table() -> str:
    """Name, exit code, bases and first sentence of every error."""
    return table(
        ("error", "exit code", "also a", "when"),
        (
            (
                f"`{kind.__name__}`",
                kind.exit_code,
                ", ".join(f"`{base.__name__}`" for base in kind.__bases__ if base is not Exception),
                inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " "),
            )
            for kind in error_classes()
        ),
    )


def api() -> str:
    """A directive of mkdocstrings for each public name, functions before classes."""
    public = {name: getattr(og, name) for name in sorted(og.__all__)}
    kinds = (
        ("Functions", [name for name, value in public.items() if inspect.isroutine(value)]),
        ("Classes", [name for name, value in public.items() if inspect.isclass(value)]),
    )
    named = {name for _, names in kinds for name in names}
    assert public.keys() - named == {"FORMATS", "errors"}, public.keys() - named
    return "\n\n".join(
        f"## {title}\n\n" + "\n\n".join(directive(name) for name in names) for title, names in kinds
    )


def directive(name: str) -> str:
    """Where a name is found: where it is defined if a package has the same name."""
    value = getattr(og, name)
    is_package = (ROOT / "ooc_graph" / name).is_dir()
    return f"::: {value.__module__ if is_package else 'ooc_graph'}.{name}"


def decisions() -> str:
    """Number and title of every decision."""
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    titles = [page.read_text().splitlines()[0].removeprefix("# ") for page in pages]
    return "\n".join(f"- [{title}]({page.name})" for page, title in zip(pages, titles, strict=True))


@dataclass(frozen=True)
class Weights:
    """A kind of weights, as a graph has them."""

    name: str
    values: list[float] | None
    dtype: str = "int64"


NONE = Weights("none", None)
KINDS = (
    NONE,
    Weights("int32", [1, 2, 3]),
    Weights("int64", [1, 2, 1 << 40]),
    Weights("float32", [1, 2, 3], "float32"),
    Weights("float64", [1, 2, 3], "float64"),
    Weights("negative", [1, -1, 3]),
)
SIGNED = ("apsp",)
"""Kernels that take negative weights."""


def support() -> str:
    """What each strategy searches, as its ``lacks`` says of graphs too large for others."""
    with tempfile.TemporaryDirectory() as folder:
        graphs = {kind.name: tiny(kind, Path(folder)) for kind in KINDS}
        return "\n\n".join(
            f"### {title}\n\n{support_table(graphs, kernels, strategies)}"
            for title, kernels, strategies in (
                ("One source, and components", list(ALGORITHMS), CANDIDATES),
                ("Many sources", [name for name in ORDER_OF if name not in ALGORITHMS], MANY),
            )
        )


def tiny(kind: Weights, folder: Path) -> og.Graph:
    """A path of four vertices in a store of two shards."""
    ends = np.arange(4)
    edges: tuple[np.ndarray, ...] = (ends[:-1], ends[1:])
    if kind.values is not None:
        edges = (*edges, np.array(kind.values, kind.dtype))
    out = folder / f"{kind.name}.zarr"
    return og.build(edges, out, directed=True, shards=2, device=CPU, client=False)


def support_table(
    graphs: dict[str, og.Graph],
    kernels: list[str],
    tables: dict[str, Callable[[], Iterable[Strategy]]],
) -> str:
    """A row for each strategy, a column for each kernel and kind of weights."""
    strategies = [strategy for device in (CPU, CUDA) for strategy in tables[device]()]
    columns = [(kernel, *kind) for kernel in kernels for kind in suited(graphs, kernel)]
    return table(
        ("strategy", *(f"`{kernel}` {kind}".strip() for kernel, kind, _ in columns)),
        (
            (
                f"`{one.name}`",
                *("yes" if does(one, graph, kernel) else "no" for kernel, _, graph in columns),
            )
            for one in strategies
        ),
    )


def suited(graphs: dict[str, og.Graph], kernel: str) -> Iterator[tuple[str, og.Graph]]:
    """The kinds of weights that a kernel reads; those that it does not read are any."""
    if ORDER_OF[kernel] == HUB:
        yield "", graphs[NONE.name]
        return
    for kind, graph in graphs.items():
        if kind != NONE.name and (kind != "negative" or kernel in SIGNED):
            yield kind, graph


def does(strategy: Strategy, graph: og.Graph, kernel: str) -> bool:
    """Whether a strategy is a candidate if nothing before it has memory enough."""
    method = "edges" if strategy.name == "cpu/edges" else "rows"
    if (strategy.device == CUDA and kernel not in ON_CUDA) or (
        method == "edges" and kernel not in FROM_ONE
    ):
        return False
    exchange = "scheduler" if strategy.name.endswith("ranks") else "auto"
    gib = 1 << 30
    resources = Resources(
        wanted=strategy.device,
        device=Device(strategy.device, memory_bytes=1),  # no rows fit it
        cuda_limits=NO_LIMITS,
        limit_bytes=gib,
        process_limit_bytes=gib,
        least_limit_bytes=gib,
        is_limited=True,
        processes=2,
        threads=1,
        has_ranks=True,
        has_client=True,
    )
    return not strategy.lacks(Job(graph, Request(kernel, exchange, method), resources))


PARTS: dict[str, Callable[[], str]] = {
    "api": api,
    "decisions": decisions,
    "errors": error_table,
    "support": support,
}


if __name__ == "__main__":
    print(re.sub(r"\n{3,}", "\n\n", PARTS[sys.argv[1]]()))  # noqa: T201
