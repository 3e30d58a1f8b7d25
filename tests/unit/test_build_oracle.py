"""Stores against an oracle of NumPy sorts, over random edge lists, options and sizes of runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ooc_graph.shards.build as build_module
from ooc_graph.edges.interface import EdgeSource, Unit
from ooc_graph.errors import InputError, UsageError
from ooc_graph.layout import names
from ooc_graph.layout.stored import Stored
from ooc_graph.shards import input_stages, merge_writer, plan, renumber, runs, staged
from ooc_graph.shards.build import build
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.workforce import Workforce
from ooc_graph.types import EdgeBlock, NoProgress

INT64_MAX = np.iinfo(np.int64).max
BLOCK = 1024


@dataclass(frozen=True, eq=False)
class ListSource:
    """Edges from arrays, with everything else that a source may say as a field."""

    u: np.ndarray
    v: np.ndarray
    w: np.ndarray | None = None
    directed: bool = False
    id_range: tuple[int, int] | None = None
    listed: np.ndarray | None = None
    rereadable: bool = True
    weight_unknown: bool = False

    @property
    def weighted(self) -> bool:
        return self.w is not None

    @property
    def weight_dtype(self) -> np.dtype[Any] | None:
        return None if self.w is None or self.weight_unknown else self.w.dtype

    @property
    def edges(self) -> int:
        return len(self.u)

    def identity(self) -> None:
        """Nothing tells it from others."""

    def units(self, edges_per_unit: int) -> Sequence[Unit]:
        starts = range(0, len(self.u), edges_per_unit)
        return [Unit(i, s, min(s + edges_per_unit, len(self.u))) for i, s in enumerate(starts)]

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        for start in range(unit.start, unit.stop, block_edges):
            part = slice(start, min(start + block_edges, unit.stop))
            yield EdgeBlock(self.u[part], self.v[part], self._weights(part))

    def _weights(self, part: slice) -> np.ndarray | None:
        if self.w is None:
            return None
        piece = self.w[part]
        # A text reader gives integers as int64 until it meets a fraction.
        whole = self.weight_unknown and bool((piece == np.floor(piece)).all())
        return piece.astype(np.int64) if whole else piece

    def vertex_blocks(self) -> Iterator[np.ndarray]:
        if self.listed is not None:
            yield from np.array_split(self.listed, 3)

    def check_totals(self, tuples_read: int) -> None:
        assert tuples_read == len(self.u)

    def describe(self) -> dict[str, Any]:
        return {"format": "list", "edges": self.edges}


@contextmanager
def small_steps(**sizes: int) -> Iterator[pytest.MonkeyPatch]:
    """Forced sizes: run (tuples), bucket (arcs), block, unit (tuples), chunk (bytes), buffer.

    Also narrow (rows of a bucket that are numbered in 16 bits), group (arcs that one task merges)
    and waiting (arcs in memory on their way to chunks; 0: they wait in files).

    Nothing is brought to the disk meanwhile: hundreds of small files would take minutes.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(os, "fdatasync", lambda _: None)
        if run := sizes.get("run"):
            patch.setattr(plan, "run_edges", lambda *_: run)
        if bucket := sizes.get("bucket"):
            patch.setattr(plan, "bucket_arcs", lambda *_: bucket)
        if block := sizes.get("block"):
            for module in (runs, renumber, staged):
                patch.setattr(module, "BLOCK_EDGES", block)
        if unit := sizes.get("unit"):
            patch.setattr(input_stages, "_STAGE_EDGES", unit)
        if chunk := sizes.get("chunk"):
            patch.setattr(names, "CHUNK_BYTES", chunk)
        if narrow := sizes.get("narrow"):
            patch.setattr(plan, "NARROW_ROWS", narrow)
        if group := sizes.get("group"):
            patch.setattr(merge_writer, "GROUP_ARCS", group)
            patch.setattr(merge_writer, "GROUPS_PER_SLOT", 1)
        if (waiting := sizes.get("waiting")) is not None:
            patch.setattr(plan.BuildBudget, "pieces_fit", lambda *_: waiting > 0)
            patch.setattr(merge_writer, "WAITING_ARCS", waiting or plan.WAITING_ARCS)
        if buffer := sizes.get("buffer"):
            patch.setattr(renumber, "_LEAST_BUFFER", buffer)
        yield patch


def build_here(
    source: EdgeSource,
    out: Path,
    *,
    slots: int = 2,
    limit_bytes: int = 1 << 30,
    **options: Any,
) -> BuildReport:
    """Build with threads of this process."""
    with ThreadPoolExecutor(slots) as executor:
        workforce = Workforce(
            executor, plan.BuildBudget(limit_bytes, 1, slots), lambda function: function()
        )
        return build(
            source,
            out,
            options=BuildOptions(**options),
            workforce=workforce,
            progress=NoProgress(),
        )


@dataclass
class Expected:
    """What a store must hold, by array name, and the attributes that follow from the edges."""

    arrays: dict[str, np.ndarray]
    vertices: int
    rows: int
    arcs: dict[str, int]
    loops: int


def expected_store(source: ListSource, orders: Sequence[str], shards: int) -> Expected:
    """The whole store by `np.unique` and `np.lexsort`."""
    ids = _all_ids(source)
    u, v = np.searchsorted(ids, source.u), np.searchsorted(ids, source.v)
    keep = u != v
    count = np.bincount(u[keep], minlength=len(ids)) + np.bincount(v[keep], minlength=len(ids))
    order = np.lexsort((np.arange(len(ids)), -count))
    order = order[count[order] > 0]
    internal = np.full(len(ids), -1)
    internal[order] = np.arange(len(order))
    arrays = {
        "original_of": ids[order],
        "internal_of": internal,
        "tuples": count[order],
    }
    if len(ids) and ids[-1] - ids[0] != len(ids) - 1:
        arrays["originals"] = ids
    weight = None if source.w is None else source.w[keep] + source.w.dtype.type(0)
    heads, tails = internal[u[keep]], internal[v[keep]]
    arcs = {}
    for side in ("out", "in") if source.directed else ("out",):
        a, b, w = heads, tails, weight
        if side == "in":
            a, b = tails, heads
        elif not source.directed:
            a, b = np.concatenate([heads, tails]), np.concatenate([tails, heads])
            w = None if weight is None else np.concatenate([weight, weight])
        arcs[side] = _rows_of_side(arrays, side, a, b, w, orders, len(order), shards)
    return Expected(arrays, len(ids), len(order), arcs, int(np.count_nonzero(~keep)))


def _all_ids(source: ListSource) -> np.ndarray:
    if source.id_range is not None:
        return np.arange(source.id_range[0], sum(source.id_range))
    named = [source.u, source.v, *([] if source.listed is None else [source.listed])]
    return np.unique(np.concatenate(named))


def _rows_of_side(
    arrays: dict[str, np.ndarray],
    side: str,
    row: np.ndarray,
    neighbor: np.ndarray,
    weight: np.ndarray | None,
    orders: Sequence[str],
    rows: int,
    shards: int,
) -> int:
    w = np.zeros(len(row)) if weight is None else weight
    best = np.lexsort((w, neighbor, row))
    row, neighbor, w = row[best], neighbor[best], w[best]
    first = np.ones(len(row), bool)
    first[1:] = (row[1:] != row[:-1]) | (neighbor[1:] != neighbor[:-1])
    row, neighbor, w = row[first], neighbor[first], w[first]
    owner = (row // BLOCK) % shards
    for name in orders:
        by = np.lexsort((neighbor, w, row)) if name == "light" else np.arange(len(row))
        for shard in range(shards):
            mine = by[owner[by] == shard]
            owned = np.arange(rows)[(np.arange(rows) // BLOCK) % shards == shard]
            lengths = np.bincount(row, minlength=rows)[owned]
            group = f"shards/{shard:05d}/{side}/{name}"
            arrays[f"{group}/offsets"] = np.concatenate([[0], np.cumsum(lengths)])
            arrays[f"{group}/neighbors"] = neighbor[mine]
            if name == "light":
                arrays[f"{group}/weights"] = w[mine]
    return len(row)


def check_store(path: Path, source: ListSource, rows: str | None, shards: int) -> Stored:
    """Compare all arrays and the counting attributes, read by this package and by zarr."""
    orders = {None: ["hub", "light"] if source.weighted else ["hub"], "both": ["hub", "light"]}
    chosen = orders.get(rows, [str(rows)])
    want = expected_store(source, chosen, shards)
    stored = Stored.open(path, "graph")
    assert {spec.path for spec in stored.arrays()} == set(want.arrays)
    group = zarr.open_group(str(path), mode="r")
    for name, array in want.arrays.items():
        mine = stored.read(name)
        np.testing.assert_array_equal(mine, array, err_msg=name)
        theirs = group[name]
        assert isinstance(theirs, zarr.Array)
        assert theirs.dtype == mine.dtype
        assert np.asarray(theirs[:]).tobytes() == mine.tobytes(), name
    said = stored.attributes
    assert (said["vertices"], said["rows"], said["arcs"]) == (want.vertices, want.rows, want.arcs)
    assert (said["edges"], said["self_loops"]) == (source.edges, want.loops)
    assert (said["directed"], said["shards"]) == (source.directed, shards)
    assert said["row_orders"] == chosen
    assert said["first_id"] == (None if "originals" in want.arrays else _first_id(source))
    assert said["weighted"] == ("light" in chosen)
    if "light" in chosen and source.w is not None and len(source.w):
        assert said["lightest"] == source.w.min()
    stored.verify()
    return stored


def _first_id(source: ListSource) -> int:
    return int(_all_ids(source)[0])


WEIGHTS: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.one_of(
        st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)
    ),
    "float32": st.one_of(
        st.sampled_from([0.0, -0.0, 1.0, -1.0]),
        st.floats(width=32, allow_nan=False, allow_infinity=False),
    ),
    "float64": st.one_of(
        st.sampled_from([0.0, -0.0, 1.0, -1.0]), st.floats(allow_nan=False, allow_infinity=False)
    ),
}


@st.composite
def sources(draw: st.DrawFn) -> ListSource:
    """Small graphs: dense or gapped ids, loops, duplicates, listed vertices, any weights."""
    kind = draw(st.sampled_from(["dense", "range", "gapped", "listed"]))
    low = draw(st.integers(0, 5))
    pool = st.integers(low, low + 9)
    if kind in {"gapped", "listed"}:
        some = draw(st.lists(st.integers(0, INT64_MAX), min_size=2, max_size=9, unique=True))
        pool = st.sampled_from(sorted({*some, INT64_MAX}))
    least = 0 if kind == "range" else 1
    pairs = draw(st.lists(st.tuples(pool, pool), min_size=least, max_size=60))
    u, v = np.array(pairs, np.int64).reshape(-1, 2).T.copy()
    weight = draw(st.sampled_from([None, *WEIGHTS]))
    w = None
    if weight is not None:
        values = draw(st.lists(WEIGHTS[weight], min_size=len(pairs), max_size=len(pairs)))
        w = np.array(values, weight)
    listed = None
    if kind == "listed":
        more = draw(st.lists(st.integers(0, INT64_MAX), max_size=4))
        listed = np.unique(np.concatenate([u, v, np.array(more, np.int64)]))[::-1].copy()
    return ListSource(
        u,
        v,
        w,
        directed=draw(st.booleans()),
        id_range=(low, 10 + draw(st.integers(0, 3))) if kind == "range" else None,
        listed=listed,
        rereadable=draw(st.booleans()),
    )


SIZES = st.fixed_dictionaries(
    {
        "run": st.sampled_from([1, 2, 7, 1000]),
        "bucket": st.sampled_from([1, 3, 10, 100000]),
        "block": st.sampled_from([1, 3, 1000]),
        "unit": st.sampled_from([1, 5, 1000]),
        "chunk": st.sampled_from([8, 24, 1 << 20]),
        "buffer": st.sampled_from([1, 4, 1000]),
        "narrow": st.sampled_from([1, 2000, 1 << 16]),
        "group": st.sampled_from([1, 10, 1 << 20]),
        "waiting": st.sampled_from([0, 1, 20, 1 << 20]),
    }
)
UNHURRIED = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)


@UNHURRIED
@given(
    source=sources(),
    sizes=SIZES,
    rows=st.sampled_from([None, "hub", "light", "both"]),
    shards=st.sampled_from([1, 2, 4, 8]),
    wide=st.booleans(),
)
def test_store_is_the_sorted_graph(
    source: ListSource, sizes: dict[str, int], rows: str | None, shards: int, wide: bool
) -> None:
    if not source.weighted and rows in {"light", "both"}:
        rows = None
    with tempfile.TemporaryDirectory() as folder, small_steps(**sizes) as patch:
        if wide:
            patch.setattr(build_module, "id_dtype", lambda _: np.dtype(np.uint64))
        out = Path(folder) / "g.zarr"
        report = build_here(source, out, rows=rows, shards=shards)
        stored = check_store(out, source, rows, shards)
        neighbors = stored.spec(f"shards/00000/out/{stored.attributes['row_orders'][0]}/neighbors")
        assert neighbors.dtype == (np.uint64 if wide else np.uint32)
        assert report.manifest is not None
        assert report.manifest.sha256 == stored.manifest.sha256


def random_source(
    seed: int, *, vertices: int, edges: int, weight: str | None, **given: Any
) -> ListSource:
    """A graph with hubs, loops, duplicates and equal weights that spans many dealing blocks."""
    rng = np.random.default_rng(seed)
    u = (vertices * rng.random(edges) ** 2).astype(np.int64)
    v = rng.integers(0, vertices, edges)
    if given.pop("gapped", False):
        ids = np.unique(rng.integers(0, INT64_MAX, 2 * vertices))[:vertices]
        u, v = ids[u], ids[v]
    w = None
    if weight == "int64":
        w = rng.integers(-4, 5, edges) * (1 if seed % 2 else 1 << 33)
    elif weight is not None:
        w = (rng.integers(-8, 9, edges) / 8).astype(weight)
    return ListSource(u, v, w, **given)


@settings(UNHURRIED, max_examples=6)
@given(
    seed=st.integers(0, 1 << 30),
    vertices=st.sampled_from([1023, 1025, 5000, 20000]),
    weight=st.sampled_from([None, *WEIGHTS]),
    directed=st.booleans(),
    gapped=st.booleans(),
    shards=st.sampled_from([1, 2, 4, 8]),
    bucket=st.sampled_from([2000, 20000]),
    run=st.sampled_from([3000, 100000]),
)
def test_many_blocks_are_dealt_to_shards(
    seed: int,
    vertices: int,
    weight: str | None,
    directed: bool,
    gapped: bool,
    shards: int,
    bucket: int,
    run: int,
) -> None:
    source = random_source(
        seed, vertices=vertices, edges=30000, weight=weight, directed=directed, gapped=gapped
    )
    sizes = {"run": run, "bucket": bucket, "unit": 7000, "chunk": 1 << 14}
    with tempfile.TemporaryDirectory() as folder, small_steps(**sizes):
        out = Path(folder) / "g.zarr"
        build_here(source, out, shards=shards)
        check_store(out, source, None, shards)


def test_a_giant_row_is_folded_like_a_sorted_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    star = np.concatenate([np.zeros(5000, np.int64), rng.integers(0, 3000, 2000)])
    leaves = rng.integers(1, 3000, 7000)
    source = ListSource(star, leaves, rng.integers(-3, 4, 7000).astype(np.float64))
    with small_steps(run=500, bucket=64):
        build_here(source, tmp_path / "g.zarr")
    check_store(tmp_path / "g.zarr", source, None, 1)


@pytest.mark.parametrize("fraction_at", [None, 0, 7, 39])
def test_a_text_column_is_float_if_one_weight_is(tmp_path: Path, fraction_at: int | None) -> None:
    w = np.arange(40.0) % 5 - 2
    if fraction_at is not None:
        w[fraction_at] = 0.5
    u = np.arange(40, dtype=np.int64)
    source = ListSource(u, (u * 7 + 1) % 40, w, weight_unknown=True, rereadable=False)
    with small_steps(unit=6, block=4):
        build_here(source, tmp_path / "g.zarr")
    stored = Stored.open(tmp_path / "g.zarr")
    dtype = "int32" if fraction_at is None else "float64"
    assert stored.spec("shards/00000/out/light/weights").dtype == dtype
    assert stored.attributes["weight_dtype"] == dtype
    check_store(tmp_path / "g.zarr", source, None, 1)


@pytest.mark.parametrize(
    ("weight", "dtype"),
    [(2**31 - 1, "int32"), (2**31, "int64"), (-(2**31), "int32"), (-(2**31) - 1, "int64")],
)
def test_integers_take_32_bits_where_all_fit(tmp_path: Path, weight: int, dtype: str) -> None:
    source = ListSource(np.array([1, 2]), np.array([2, 3]), np.array([weight, 0]))
    build_here(source, tmp_path / "g.zarr")
    assert Stored.open(tmp_path / "g.zarr").attributes["weight_dtype"] == dtype
    check_store(tmp_path / "g.zarr", source, None, 1)


def test_declared_vertices_without_any_edge(tmp_path: Path) -> None:
    none = np.empty(0, np.int64)
    source = ListSource(none, none, id_range=(1, 5))
    build_here(source, tmp_path / "g.zarr", shards=4)
    stored = check_store(tmp_path / "g.zarr", source, None, 4)
    np.testing.assert_array_equal(stored.read("internal_of"), [-1] * 5)


def test_loops_only_keeps_the_vertex_without_a_row(tmp_path: Path) -> None:
    source = ListSource(np.array([9, 9]), np.array([9, 9]))
    build_here(source, tmp_path / "g.zarr")
    stored = check_store(tmp_path / "g.zarr", source, None, 1)
    assert (stored.attributes["vertices"], stored.attributes["rows"]) == (1, 0)


def test_an_edge_outside_the_listed_vertices_is_refused(tmp_path: Path) -> None:
    source = ListSource(np.array([1, 4]), np.array([2, 5]), listed=np.array([1, 2, 4]))
    with pytest.raises(InputError, match="vertex 5, which the vertex file does not list"):
        build_here(source, tmp_path / "g.zarr")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shards": 3}, "power of two"),
        ({"shards": 0}, "power of two"),
        ({"rows": "light"}, "no weights"),
        ({"rows": "both"}, "no weights"),
        ({"rows": "heavy"}, "choose hub, light or both"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    source = ListSource(np.array([1]), np.array([2]))
    with pytest.raises(UsageError, match=words):
        build_here(source, tmp_path / "g.zarr", **options)
    assert list(tmp_path.iterdir()) == []


def test_no_edges_and_no_declared_vertices_is_refused(tmp_path: Path) -> None:
    none = np.empty(0, np.int64)
    with pytest.raises(InputError, match="no edges"):
        build_here(ListSource(none, none), tmp_path / "g.zarr")
    assert list(tmp_path.iterdir()) == []


class Understated(ListSource):
    """Units of which each has one edge more than it says."""

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        yield from super().read(replace(unit, stop=unit.stop + 1), block_edges)


def test_a_part_with_more_edges_than_it_said_is_refused(tmp_path: Path) -> None:
    source = Understated(np.arange(20), np.arange(1, 21))
    with small_steps(run=8), pytest.raises(InputError, match="more than the 8 edges that it said"):
        build_here(source, tmp_path / "g.zarr")
    assert list(tmp_path.iterdir()) == []
