"""Lines per second of the text tokenizer beside pyarrow's and pandas' CSV readers.

    python benchmarks/readers.py [--lines 2000000] [--repeats 5]

Whole files in blocks of 4 MiB on one thread, integers (two ids) and floats (a weight of 17
digits, of 3 digits, an integer); then the other formats through ``open_source``. Best wall time
and median CPU time of the repeats: the second hardly moves when the machine is busy.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import zstandard
from harness.program import Program, load_average
from harness.timing import rates
from pyarrow import csv, parquet

from ooc_graph.edges import EdgeSource, open_source

BLOCK_BYTES = 4 << 20
BLOCK_EDGES = 1 << 18
LINES: dict[str, Callable[[int, int, float], str]] = {
    "ids": lambda a, b, _: f"{a}\t{b}",
    "ids, float of 17 digits": lambda a, b, w: f"{a}\t{b}\t{w!r}",
    "ids, float of 3 digits": lambda a, b, w: f"{a}\t{b}\t{w:.3f}",
    "ids, integer": lambda a, b, w: f"{a}\t{b}\t{int(w * 1000)}",
}


def write_texts(folder: Path, lines: int) -> dict[str, Path]:
    """Tab-separated files with ids below 2**22 in no order."""
    rng = np.random.default_rng(1)
    u, v = rng.integers(0, 1 << 22, (2, lines)).tolist()
    unit, paths = rng.random(lines).tolist(), {}
    for number, (name, line) in enumerate(LINES.items()):
        paths[name] = folder / f"g{number}.tsv"
        rows = (line(*row) for row in zip(u, v, unit, strict=True))
        paths[name].write_text("\n".join(rows) + "\n")
    return paths


def drain(source: EdgeSource, threads: int = 1) -> int:
    units = source.units(1 << 19)
    with ThreadPoolExecutor(threads) as pool:
        counts = pool.map(lambda unit: sum(map(len, source.read(unit, BLOCK_EDGES))), units)
        return sum(counts)


def by_pyarrow(path: Path) -> int:
    options = {"use_threads": False, "block_size": BLOCK_BYTES}
    read = csv.ReadOptions(autogenerate_column_names=True, **options)
    with csv.open_csv(path, read, csv.ParseOptions(delimiter="\t")) as batches:
        return sum(len(batch) for batch in batches)


def by_pandas(path: Path) -> int:
    chunks = pd.read_csv(path, sep="\t", header=None, engine="c", chunksize=BLOCK_EDGES)
    return sum(len(chunk) for chunk in chunks)


def text_cases(paths: dict[str, Path]) -> dict[str, Callable[[], int]]:
    cases: dict[str, Callable[[], int]] = {}
    for name, path in paths.items():
        cases[f"{name}: tokenizer"] = lambda p=path: drain(open_source(p, format="edgelist"))
        cases[f"{name}: tokenizer, tabs"] = lambda p=path: drain(open_source(p, header=False))
        cases[f"{name}: pyarrow"] = lambda p=path: by_pyarrow(p)
        cases[f"{name}: pandas"] = lambda p=path: by_pandas(p)
    ids = paths["ids"]
    cases["ids: tokenizer, 2 threads"] = lambda: drain(open_source(ids, format="edgelist"), 2)
    return cases


def other_cases(folder: Path, paths: dict[str, Path]) -> dict[str, Callable[[], int]]:
    """The same ids compressed, as a matrix, METIS rows, arrays and Parquet."""
    text = paths["ids"].read_bytes()
    pairs = np.array(text.split(), dtype=np.int64).reshape(-1, 2)
    (folder / "g.tsv.gz").write_bytes(gzip.compress(text, 6))
    (folder / "g.tsv.zst").write_bytes(zstandard.compress(text))
    banner = f"%%MatrixMarket matrix coordinate pattern general\n{1 << 22} {1 << 22} {len(pairs)}\n"
    lines = "".join(f"{u + 1} {v + 1}\n" for u, v in pairs.tolist())
    (folder / "g.mtx").write_text(banner + lines)
    np.save(folder / "g.npy", pairs)
    parquet.write_table(pa.table({"u": pairs[:, 0], "v": pairs[:, 1]}), folder / "g.parquet")
    rows = pairs[:, 1].reshape(-1, 16) + 1
    head = f"{1 << 22} {len(pairs)}\n"
    body = "\n".join(" ".join(map(str, row)) for row in rows.tolist())
    (folder / "g.graph").write_text(head + body + "\n" * ((1 << 22) - len(rows) + 1))
    names = ["g.tsv.gz", "g.tsv.zst", "g.mtx", "g.npy", "g.parquet", "g.graph"]
    return {name: lambda p=folder / name: drain(open_source(p, directed=True)) for name in names}


def main() -> None:
    program = Program("readers", __doc__, repeats=5)
    program.add("--lines", type=int, default=2_000_000)
    options = program.parse()
    load = load_average()
    figures = {}
    with program.scratch() as folder:
        paths = write_texts(folder, options.lines)
        for name, task in {**text_cases(paths), **other_cases(folder, paths)}.items():
            assert task() == options.lines
            figures[name] = rates(task, options.lines, "lines", options.repeats)
    program.record(program.given("lines", "repeats") | load, figures)


if __name__ == "__main__":
    main()
