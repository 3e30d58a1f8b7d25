"""A store's manifest depends on the edges and the options, on nothing else (decision 5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st

import ooc_graph as og
from ooc_graph.layout.stored import Stored
from ooc_graph.runtime.cluster import local_cluster
from tests.unit.test_build_oracle import (
    SIZES,
    UNHURRIED,
    WEIGHTS,
    ListSource,
    build_here,
    random_source,
    small_steps,
    sources,
)

MIB = 1 << 20


def manifest_of(source: ListSource, out: Path, **options: object) -> str:
    report = build_here(source, out, overwrite=True, **options)  # type: ignore[arg-type]
    assert report.manifest is not None
    return report.manifest.sha256


@settings(UNHURRIED, max_examples=10)
@given(
    source=sources(),
    sizes=st.tuples(SIZES, SIZES),
    slots=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    staged=st.tuples(st.booleans(), st.booleans()),
)
def test_any_steps_give_the_same_manifest(
    tmp_path_factory: pytest.TempPathFactory,
    source: ListSource,
    sizes: tuple[dict[str, int], dict[str, int]],
    slots: tuple[int, int],
    staged: tuple[bool, bool],
) -> None:
    folder = tmp_path_factory.mktemp("same")
    found = []
    for number in (0, 1):
        # Chunk length is part of the format; everything else may differ.
        with small_steps(**{**sizes[number], "chunk": sizes[0]["chunk"]}):
            one = replace(source, rereadable=staged[number])
            found.append(manifest_of(one, folder / "g.zarr", slots=slots[number]))
    assert found[0] == found[1]


def test_minus_zero_as_the_lightest_weight(tmp_path: Path) -> None:
    """-0.0 == 0.0: which of them a minimum gives depends on the order of the units."""
    ones = np.ones(4, np.int64)
    found = set()
    for w in ([0.0, -0.0, 1.0, 2.0], [-0.0, 0.0, 1.0, 2.0]):
        source = ListSource(ones * 3, np.arange(4, 8), np.array(w))
        for slots in (1, 2, 3):
            with small_steps(unit=1):
                found.add(manifest_of(source, tmp_path / "g.zarr", slots=slots))
    assert len(found) == 1


@pytest.mark.parametrize("weight", [None, *WEIGHTS])
def test_slots_and_limits(tmp_path: Path, weight: str | None) -> None:
    source = random_source(4, vertices=3000, edges=200_000, weight=weight, gapped=True)
    limits = {(1, 1 << 30), (2, 64 * MIB), (3, 56 * MIB)}
    found = {
        manifest_of(source, tmp_path / "g.zarr", slots=slots, limit_bytes=limit)
        for slots, limit in limits
    }
    assert len(found) == 1


def test_what_must_make_a_difference(tmp_path: Path) -> None:
    source = random_source(4, vertices=3000, edges=9000, weight="float64")
    assert source.w is not None
    heavier = source.w.copy()
    heavier[np.flatnonzero(source.u != source.v)[0]] -= 9
    variants = [
        (source, {}),
        (source, {"shards": 2}),
        (source, {"rows": "hub"}),
        (source, {"rows": "light"}),
        (replace(source, directed=True), {}),
        (replace(source, w=heavier), {}),
    ]
    found = [manifest_of(one, tmp_path / "g.zarr", **options) for one, options in variants]
    assert len(set(found)) == len(variants)


def test_order_of_the_edges_makes_none(tmp_path: Path) -> None:
    source = random_source(5, vertices=3000, edges=9000, weight="float32", directed=True)
    assert source.w is not None
    mixed = np.random.default_rng(0).permutation(9000)
    other = replace(source, u=source.u[mixed], v=source.v[mixed], w=source.w[mixed])
    assert manifest_of(source, tmp_path / "a.zarr") == manifest_of(other, tmp_path / "b.zarr")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    """Two worker processes."""
    with local_cluster(2) as client:
        yield client


@pytest.mark.parametrize("weight", [None, "float64"])
def test_dask_builds_the_same_store(cluster: Client, tmp_path: Path, weight: str | None) -> None:
    source = random_source(6, vertices=5000, edges=60_000, weight=weight, gapped=True)
    columns = (source.u, source.v) if source.w is None else (source.u, source.v, source.w)
    here = og.build(columns, tmp_path / "here.zarr", directed=True, shards=4)
    there = og.build(columns, tmp_path / "there.zarr", directed=True, shards=4, client=cluster)
    assert here.identity == there.identity
    there.stored.verify()


def test_dask_builds_the_same_kronecker(cluster: Client, tmp_path: Path) -> None:
    here = og.build(og.Kronecker(12), tmp_path / "here.zarr")
    there = og.build(
        og.Kronecker(12), tmp_path / "there.zarr", client=cluster, memory_limit="256MiB"
    )
    assert here.identity == there.identity


def test_a_text_file_is_staged_to_the_same_arrays(tmp_path: Path) -> None:
    source = random_source(7, vertices=2000, edges=20_000, weight="float64", directed=True)
    assert source.w is not None
    rows = zip(source.u.tolist(), source.v.tolist(), source.w.tolist(), strict=True)
    (tmp_path / "g.tsv").write_text("".join(f"{u}\t{v}\t{w!r}\n" for u, v, w in rows))
    text = og.build(tmp_path / "g.tsv", tmp_path / "t.zarr", directed=True, header=False)
    arrays = og.build((source.u, source.v, source.w), tmp_path / "a.zarr", directed=True)
    assert array_files(text.stored) == array_files(arrays.stored)


def array_files(stored: Stored) -> dict[str, str]:
    """Everything but the group's own document, which says where the edges came from."""
    files = stored.manifest.files
    return {name: entry.digest for name, entry in files.items() if name != "zarr.json"}
