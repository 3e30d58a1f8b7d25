"""A model of BFS by ranks, fitted to records/scaling.jsonl.

Its tables and its picture are those of docs/explanation/benchmarks/scaling.md.

The processor time of a worker in a level is a sum of four terms, each with a coefficient: arcs that
it looks at, bytes that it sends, its ranks, and messages to other workers. Messages grow with the
number of workers or with its logarithm. Coefficients are least squares of relative errors.
On GPUs, seconds of an arc are fitted in the same way to levels of searches (records/gpu.jsonl);
the network is given. Who gets a bitmap of all rows merges it:
three passes at the rate of copies on the device.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mode as commonest
from typing import Any, NamedTuple

import numpy as np
from harness.pictures import GREY, KERNELS, picture, plain_numbers, titled
from harness.program import RECORDS, newest
from harness.tables import markdown

from ooc_graph.types import AnyArray

Record = dict[str, Any]
NETWORK_BYTES_PER_S, MESSAGE_S = 50e9, 5e-6
"""Of a GPU."""
ARC_BYTES, STATE_BITS, MERGE_PASSES = 5, 4, 3
NEAR, FAR = "shared memory", "connections"
LATENCIES: dict[str, Callable[[Any], Any]] = {
    "the other workers": lambda workers: workers - 1,
    "log2 of the workers": np.log2,
}
FIT = (
    "through",
    "telling grows with",
    *(f"ns for {n}" for n in ("an arc", "a byte", "a rank", "telling")),
)
FIT += "error of a level", "of a search, at most"
HEAD = "ms", "ratio", "processor ms", "ratio", "kB sent", "of raw bitmaps", "supersteps"


class Fit(NamedTuple):
    """Seconds of each term, the relative error of a level (median), and of a search (most)."""

    through: str
    latency: str
    seconds: AnyArray
    level_error: float
    search_error: float

    @property
    def cells(self) -> tuple[str, ...]:
        """In the order of `FIT`."""
        errors = f"{self.level_error:.0%}", f"{self.search_error:.0%}"
        return self.through, self.latency, *(f"{1e9 * one:.3g}" for one in self.seconds), *errors


def least_squares(terms: AnyArray, seconds: AnyArray) -> AnyArray:
    """Coefficients (k,) of terms (n, k) by which relative errors of seconds (n,) are least."""
    found, *_ = np.linalg.lstsq(terms / seconds[:, None], np.ones(len(seconds)), rcond=None)
    return np.asarray(found)


def fitted(records: Sequence[Record], through: str, latency: str) -> Fit:
    """The model of levels of BFS by ranks, each record having medians of them."""
    terms, seconds, searches = [], [], []
    # Ranks that search together have none.
    have_levels = [record for record in records if "levels" in record["figures"][through]]
    for number, record in enumerate(have_levels):
        workers, ranks = (record["parameters"][name] for name in ("workers", "ranks"))
        # The first entry is what comes before the levels.
        for level in record["figures"][through]["levels"][1:]:
            told = LATENCIES[latency](workers)
            shares = level["arcs"] / workers, level["bytes"] / workers, ranks / workers
            terms.append((*shares, told))
            seconds.append(level["processor_s"] / workers)
            searches.append(number)
    measured = np.array(seconds)
    found = least_squares(np.array(terms), measured)
    modelled = np.array(terms) @ found
    of_search = np.bincount(searches, modelled) / np.bincount(searches, measured)
    level_error = float(np.median(np.abs(modelled / measured - 1)))
    return Fit(through, latency, found, level_error, float(np.abs(of_search - 1).max()))


def prediction(records: Sequence[Record], raw_share: float, scale: int, gpus: int) -> Record:
    """A BFS by one rank a GPU: ``records`` are of whole searches on one GPU, a scale each.

    Rows, levels and arcs looked at follow from theirs, bytes from the share of raw bitmaps that
    ranks send.
    """
    last = records[-1]
    levels = [level for search in last["levels"] for level in search]
    terms = np.array([(pushed + examined, 1) for _, _, pushed, examined, _ in levels])
    arc_s, launch_s = least_squares(terms, np.array([level[-1] for level in levels]))
    slope, start = np.polyfit(
        [one["scale"] for one in records], [np.log2(one["rows"]) for one in records], 1
    )
    rows, arcs = 2 ** (slope * scale + start), 2 * last["edge_factor"] * 2.0**scale
    deep = float(np.median([len(search) for search in last["levels"]])) + 1
    bitmap, examined = rows / 8, last["arcs_share"] * arcs / gpus
    seconds = {
        "arcs": arc_s * examined + launch_s * deep,
        "merging bitmaps": MERGE_PASSES * deep * bitmap / last["copy_bytes_per_s"],
        "bytes": raw_share * deep * bitmap / NETWORK_BYTES_PER_S,
        "telling, by log2": deep * np.log2(gpus) * MESSAGE_S,
        "telling, each other GPU": deep * (gpus - 1) * MESSAGE_S,
    }
    whole = sum(seconds.values()) - seconds["telling, by log2"]
    return {
        "rows": rows,
        "levels": deep,
        "arcs looked at by a GPU": examined,
        "bytes that a GPU gets": raw_share * deep * bitmap,
        "bytes of a GPU's arcs": ARC_BYTES * arcs / gpus,
        "bytes of a GPU's state": STATE_BITS * rows / 8,
        **{f"seconds: {name}": one for name, one in seconds.items()},
        "seconds": whole,
        "GTEPS": last["edge_factor"] * 2.0**scale / whole / 1e9,
    }


def records_of(path: Path) -> list[Record]:
    """The newest record of each mode, kernel and shape."""
    names = "mode", "kernel", "scale", "workers", "ranks"
    return newest(path, lambda r: tuple(r["parameters"].get(n, 0) for n in names), lambda _: True)


def of_mode(records: Sequence[Record], mode: str, *kernels: str) -> list[Record]:
    """Those of a mode, and of some kernels or all."""
    wanted = [r for r in records if r["parameters"]["mode"] == mode]
    return [r for r in wanted if not kernels or r["parameters"]["kernel"] in kernels]


def tables(records: Sequence[Record]) -> dict[str, str]:
    """Tables of the page by their names, of the records that there are."""
    made = {}
    for record in records:
        given, own = record["parameters"], record["figures"]
        name = "{mode}, {kernel}, scale {scale}".format(**given)
        if "workers" in given:
            name += ", {ranks} ranks in {workers}".format(**given)
        if given["mode"] in ("study", "many_ranks"):
            rows = [(who, *_cells(figures)) for who, figures in own.items()]
            made[name] = markdown(("", *HEAD), rows)
        elif given["mode"] == "strong" and given["kernel"] == "bfs" and given["ranks"] in (2, 64):
            names = "arcs", "bytes", "seconds", "steps_s", "processor_s"
            rows = [
                (at - 1 if at else "start", *(_text(n, level[n]) for n in names))
                for at, level in enumerate(own[FAR]["levels"])
            ]
            head = "level", "arcs", "bytes", "ms", "of these, steps", "processor ms"
            made[name] = markdown(head, rows)
    for mode in ("strong", "weak"):
        shape = "kernel", "scale", "ranks", "workers"
        rows = [
            (*(record["parameters"][n] for n in shape), who, *_cells(record["figures"][who]))
            for record in of_mode(records, mode)
            for who in (NEAR, FAR)
        ]
        made[mode] = markdown((*shape, "through", *HEAD), rows)
    ours = [*of_mode(records, "strong", "bfs"), *of_mode(records, "weak", "bfs")]
    many = [r for r in ours if r["parameters"]["ranks"] == 64]
    if many:
        made["fits"] = markdown(FIT, [fitted(ours, FAR, latency).cells for latency in LATENCIES])
        share = many[-1]["figures"][FAR]["of_raw_bitmaps"][1]
        found = prediction(of_gpu(), share, 40, 1000)
        told = [(name, f"{value:.3g}") for name, value in found.items()]
        made["prediction"] = markdown(("1,000 GPUs, scale 40", ""), told)
    return made


def of_gpu() -> list[Record]:
    """Records of BFS on one GPU that have levels, the newest of each scale."""

    def is_wanted(record: Record) -> bool:
        return record["kernel"] == "bfs" and bool(record.get("levels"))

    return newest(RECORDS / "gpu.jsonl", lambda record: record["scale"], is_wanted)


def _text(name: str, value: float) -> str:
    """A count, or milliseconds of seconds."""
    return f"{1e3 * value:.2f}" if name.endswith(("_s", "seconds")) else f"{value:,.0f}"


def _cells(own: Record) -> list[str]:
    """Figures of searches, in the order of `HEAD`."""
    raw = [f"{share:.0%}" for share in own.get("of_raw_bitmaps", ())]
    return [
        *(f"{1e3 * own['seconds']:.1f}", f"{own['seconds_ratio']:.2f}"),
        *(f"{1e3 * own['processor_s']:.1f}", f"{own['processor_s_ratio']:.2f}"),
        *(f"{own['bytes'] / 1e3:,.1f}", f"{raw[1]} ({raw[0]}, {raw[2]})" if raw else ""),
        f"{own['supersteps']:g}",
    ]


def draw(records: Sequence[Record], path: Path) -> None:
    with picture("scaling", path, (8.6, 3.1)) as figure:
        strong, weak, study = figure.subplots(1, 3)
        for axis, mode in ((strong, "strong"), (weak, "weak")):
            for kernel, colour in KERNELS.items():
                own = of_mode(records, mode, kernel)
                if mode == "strong":
                    # The scale with most shapes.
                    shown = commonest(record["parameters"]["scale"] for record in own)
                    own = [record for record in own if record["parameters"]["scale"] == shown]
                ranks = [record["parameters"]["ranks"] for record in own]
                for who, line in ((NEAR, "-"), (FAR, "--")):
                    ratios = [record["figures"][who]["processor_s_ratio"] for record in own]
                    style = {"color": colour, "marker": "o", "markersize": 3}
                    axis.plot(ranks, ratios, line, label=f"{kernel.upper()}, {who}", **style)
            axis.axhline(1, color=GREY, linewidth=0.8)
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            plain_numbers(axis.xaxis)
            plain_numbers(axis.yaxis)
            titled(axis, f"{mode.capitalize()} scaling", "ranks, in up to 8 workers", grid="y")
        strong.legend(frameon=False, loc="center right")
        strong.set_ylabel("processor time, times one worker's")
        own = of_mode(records, "study", "bfs")[-1]["figures"]
        study.barh(list(own), [one["bytes"] / 1e3 for one in own.values()], color=KERNELS["bfs"])
        study.invert_yaxis()
        titled(study, "BFS, each switched off", "kB sent", grid="x")


def report(path: Path, out: Path) -> None:
    """Print the tables of the page, and draw its picture."""
    records = records_of(path)
    for name, table in tables(records).items():
        print(f"\n{name}\n\n{table}", end="")
    if all(of_mode(records, mode, *KERNELS) for mode in ("strong", "weak", "study")):
        draw(records, out)
