"""Picture of README: the speed of a search by the share of arcs in memory.

    python benchmarks/share_of_arcs.py [--records PATH] [--scale 22] [--out PATH]

Draws the newest record of each kernel and share in `tiers.jsonl`. A search with arcs in the store
is compared with the search in memory that was measured in turn with it: harmonic mean TEPS of the
one over those of the other. The picture follows the reader's preference for light or dark.
"""

from pathlib import Path

from harness.pictures import (
    BLUE,
    GRID,
    INK,
    KERNELS,
    SKY,
    VERMILION,
    end_label,
    picture,
    plain_numbers,
    titled,
)
from harness.program import RECORDS, Program
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from tiers_picture import TICKS, chosen

# By colour that is drawn: the name of its variable, the colour on light and on dark.
THEME = {
    INK: ("ink", INK, "#e6e6e6"),
    GRID: ("grid", GRID, "#4a4f57"),
    "white": ("paper", "white", "#1e2129"),
    BLUE: ("bfs", BLUE, SKY),
    VERMILION: ("sssp", VERMILION, "#ff9a4d"),
}


def draw(figure: Figure, records: Path, scale: int) -> None:
    axis = figure.subplots()
    for kernel, found in chosen(records, scale).items():
        at = [record["figures"]["resident_share"] for record in found]
        rates = [record["figures"]["harmonic_teps"] for record in found]
        share = [100 * rate["tier"] / rate["memory"] for rate in rates]
        axis.plot(at, share, color=KERNELS[kernel], marker="o", markersize=5, label=kernel.upper())
        end_label(axis, (at[-1], share[-1]), f"{kernel.upper()} {share[-1]:.0f} %", KERNELS[kernel])
    axis.set_xscale("log")
    axis.set_xlim(1.15, 0.035)
    axis.set_xticks(TICKS, [f"{100 * tick:g} %" for tick in TICKS])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_ylim(0, 110)
    plain_numbers(axis.yaxis)
    title = f"Speed, in % of the same search with all arcs in memory (Kronecker, scale {scale})"
    titled(
        axis,
        title,
        "share of arcs in memory; the others are read from the store (page cache warm, two cores)",
        "",
        grid="y",
    )


def themed(svg: str) -> str:
    """The picture with colours that a reader's preference changes."""
    for colour, (name, *_) in THEME.items():
        svg = svg.replace(to_hex(colour), f"var(--{name})").replace(
            to_hex(colour).upper(), f"var(--{name})"
        )
    light = "; ".join(f"--{name}: {colour}" for name, colour, _ in THEME.values())
    dark = "; ".join(f"--{name}: {colour}" for name, _, colour in THEME.values())
    head, tag, rest = svg.partition("<defs>")
    return f"""{head}<style>
svg {{ {light} }}
text {{ fill: var(--ink); font-family: sans-serif }}
@media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}
</style>
{tag}{rest}"""


def main() -> None:
    program = Program("share_of_arcs", __doc__, scale=22, out=RECORDS / "share_of_arcs.svg")
    options = program.parse()
    with picture("share of arcs", options.out, (6.4, 2.9)) as figure:
        draw(figure, RECORDS / "tiers.jsonl", options.scale)
    options.out.write_text(themed(options.out.read_text()))


if __name__ == "__main__":
    main()
