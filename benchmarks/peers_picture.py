"""Bars of how many times faster ours is, by graph, library and kernel, and tables in Markdown.

    python benchmarks/peers_picture.py [--records PATH] [--each] [--out PATH]

Draws the records of the newest run again; or, of several runs, the newest record of each graph and
search. Earlier ones, of searches alone, are left out. Prints a table of the same records, and one
of the newest records of many sources.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from harness import pictures
from harness.pictures import INK, picture, plain
from harness.program import RECORDS, Program
from harness.tables import markdown
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from ooc_graph.report.records import read_records

OURS = "ooc-graph"
COLOURS = {
    "networkit": pictures.BLUE,
    "igraph": pictures.ORANGE,
    "SciPy": pictures.GREEN,
    "GraphBLAS": pictures.PURPLE,
    "networkx": pictures.VERMILION,
    "ooc-graph edges": pictures.SKY,
    "ooc-graph one by one": pictures.SKY,
}
BAR_INCH, GAP_BARS, TOP_INCH = 0.155, 0.8, 1.25


def draw(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Write the picture; the ending of the name says what kind of file."""
    kernels = [k for k in ("bfs", "sssp") if any(r["parameters"]["kernel"] == k for r in records)]
    panels = [[r for r in records if r["parameters"]["kernel"] == k] for k in kernels]
    most = max(sum(len(r["figures"]) - 1 + GAP_BARS for r in panel) for panel in panels)
    size = 5.2 * len(kernels), TOP_INCH + BAR_INCH * max(most, 6)
    with picture("peers", path, size, layout=None) as figure:
        axes = figure.subplots(1, len(kernels), squeeze=False)[0]
        for axis, kernel, panel in zip(axes, kernels, panels, strict=True):
            _panel(axis, panel, most)
            axis.set_title(kernel.upper(), loc="left", fontsize=10, color=INK)
        _legend(figure, records)


def _panel(axis: Axes, records: Sequence[dict[str, Any]], bars: float) -> None:
    """One kernel's bars, as wide as those of the panel that has the most."""
    place, ticks, names = 0.0, [], []
    for record in records:
        peers = [(n, row) for n, row in record["figures"].items() if n != OURS]
        ticks.append(place + (len(peers) - 1) / 2)
        ours = record["figures"][OURS]
        whole, search = (_ms(ours[name]) for name in ("median_s", "median_search_s"))
        names.append(f"{record['parameters']['graph']}\nours {whole}\n(search {search})")
        for name, row in peers:
            ratio = row["ours_is_faster_by"]
            axis.barh(place, ratio - 1, left=1, height=0.9, color=COLOURS[name])
            axis.annotate(
                f"{_times(ratio)}  ({_ms(row['median_s'])})",
                (max(ratio, 1), place), (3, 0), textcoords="offset points",
                va="center", fontsize=7, color=INK,
            )  # fmt: skip
            place += 1
        place += GAP_BARS
    axis.set_xscale("log")
    axis.set_yticks(ticks, names)
    axis.set_ylim(bars, -1)
    low, high = axis.get_xlim()
    axis.set_xlim(min(low, 0.8), max(high, 2) * 4)  # room for the figures beside the bars
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _times(value)))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("times faster than the library (harmonic mean of TEPS)", color=INK)
    axis.axvline(1, color=INK, linewidth=0.8)
    plain(axis, grid="x")


def _legend(figure: Figure, records: Sequence[dict[str, Any]]) -> None:
    rows = [one for record in records for one in record["figures"].items()]
    shown = {name: f"{name} {row['version']}" for name, row in rows}
    others = [name for name in shown if name != OURS]
    handles = [mpl.patches.Patch(color=COLOURS[name], label=shown[name]) for name in others]
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.02, 1.0), ncols=5, frameon=False,
        title=f"{shown[OURS]}, parents and levels or distances in the order of the input, against "
        "(median time in brackets)",
        alignment="left",
    )  # fmt: skip
    figure.tight_layout()


def _times(ratio: float) -> str:
    digits = 0 if ratio >= 10 else 1 if ratio >= 1 else 2
    return f"{ratio:,.{digits}f}\u00d7"


def _ms(seconds: float) -> str:
    value = seconds * 1e3
    return f"{value:,.{0 if value >= 20 else 1}f} ms"


def table(records: Sequence[dict[str, Any]]) -> str:
    """Median times, and how many times faster ours is; starred: parents are ours alone."""
    found = {name for record in records for name in record["figures"]}
    others, rows = [name for name in COLOURS if name in found], []
    alone = any("median_search_s" in record["figures"][OURS] for record in records)
    own = {"ours": "median_s", **({"search alone": "median_search_s"} if alone else {})}
    for record in sorted(records, key=lambda r: r["parameters"]["kernel"]):
        parameters, figures = record["parameters"], record["figures"]
        row = [parameters["graph"], parameters["kernel"].upper()]
        row += [_ms(figures[OURS][name]) for name in own.values()]
        for one in map(figures.get, others):
            star = "\\*" if one and figures[OURS]["parents"] > one["parents"] else ""
            factor = one and _times(one["ours_is_faster_by"])
            row.append(f"{_ms(one['median_s'])}{star}, {factor}" if one else "-")
        rows.append(row)
    return markdown(["graph", "search", *own, *others], rows)


def newest_of(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newest record of each graph and search."""
    ordered = sorted(records, key=lambda r: r["parameters"]["run"])
    newest = {(r["parameters"]["graph"], r["parameters"]["kernel"]): r for r in ordered}
    return [record for record in records if record in newest.values()]


def main() -> None:
    program = Program("peers", __doc__, out=RECORDS / "peers.svg")
    program.add("--each", action="store_true", help="the newest of each graph and search")
    options = program.parse()
    found = [*read_records(options.records)]
    found.sort(key=lambda r: (r["parameters"]["kind"] != "kronecker", r["parameters"]["graph"]))
    records = [record for record in found if "median_search_s" in record["figures"][OURS]]
    run = max(record["parameters"]["run"] for record in records)
    in_run = [r for r in records if r["parameters"]["run"] == run]
    drawn = newest_of(records) if options.each else in_run
    many = newest_of([record for record in found if "sources" in record["parameters"]])
    draw(drawn, options.out)
    print(*(table(some) for some in (drawn, many) if some), sep="\n")


if __name__ == "__main__":
    main()
