"""The output block against the labels of Graph500's reference code."""

from __future__ import annotations

import dataclasses
from itertools import chain

import pytest

from ooc_graph.report.data import SearchRecord
from ooc_graph.report.graph500 import Graph500Result, output_block

HEAD = ["SCALE", "edgefactor", "NBFS", "graph_generation", "num_mpi_processes", "construction_time"]
SEVEN = ["min", "firstquartile", "median", "thirdquartile", "max", "mean", "stddev"]
TEPS = [*SEVEN[:5], "harmonic_mean", "harmonic_stddev"]


def runs(name: str, *, validated: bool = True) -> list[SearchRecord]:
    validate_s = (0.5, 0.5, 1.5, 1.5) if validated else (None,) * 4
    return [
        SearchRecord(name, 5 + key, 0.25 * (1 + key), 4193472, validate_s=validate_s[key])
        for key in range(4)
    ]


def changed(searches: list[SearchRecord], **changes: object) -> list[SearchRecord]:
    return [dataclasses.replace(one, **changes) for one in searches]


def result(*kernels: list[SearchRecord], **changes: object) -> Graph500Result:
    made = Graph500Result(18, 16, 4, 0.123456789, 2, 12345678.9, tuple(chain(*kernels)))
    return dataclasses.replace(made, **changes)


def labels(prefixes: list[str], *, validated: bool = True) -> list[str]:
    found = [f"{name}:" for name in HEAD]
    found += [f"{prefix}{name}_time:" for prefix in prefixes for name in SEVEN]
    found += [f"{name}_nedge:" for name in SEVEN]
    found += [f"{prefix}{name}_TEPS:" for prefix in prefixes for name in TEPS]
    if validated:
        found += [f"{prefix}{name}_validate:" for prefix in prefixes for name in SEVEN]
    return found


def label_of(line: str) -> str:
    return line[: line.index(":") + 1]


@pytest.mark.parametrize(
    ("kernels", "prefixes"),
    [(("bfs",), ["bfs  "]), (("sssp",), ["sssp "]), (("sssp", "bfs"), ["bfs  ", "sssp "])],
)
def test_labels_and_their_order(kernels, prefixes):
    lines = output_block(result(*map(runs, kernels))).splitlines()
    assert [label_of(line) for line in lines] == labels(prefixes)


def test_values_start_in_column_33():
    for line in output_block(result(runs("bfs"), runs("sssp"))).splitlines():
        assert line[31] == " "
        float(line[32:])
        between = line[len(label_of(line)) : 32]
        assert between.strip() == ("!" if "harmonic_mean" in line else "")


def test_exact_lines():
    lines = output_block(result(runs("bfs"), runs("sssp"))).splitlines()
    assert lines[:7] == [
        "SCALE:                          18",
        "edgefactor:                     16",
        "NBFS:                           4",
        "graph_generation:               0.123457",
        "num_mpi_processes:              2",
        "construction_time:              1.23457e+07",
        "bfs  min_time:                  0.25",
    ]
    assert "bfs  firstquartile_time:        0.375" in lines
    assert "mean_nedge:                     4193472" in lines
    # Mean time 0.625 s: 4193472 / 0.625 edges a second.
    assert "bfs  harmonic_mean_TEPS:     !  6.70956e+06" in lines
    assert "sssp harmonic_mean_TEPS:     !  6.70956e+06" in lines
    assert "bfs  min_TEPS:                  4.19347e+06" in lines
    assert "bfs  max_TEPS:                  1.67739e+07" in lines
    assert "sssp thirdquartile_validate:    1.5" in lines


def test_edge_counts_have_eleven_digits():
    block = output_block(result(changed(runs("bfs"), edges=17179869184)))
    assert "min_nedge:                      17179869184\n" in block


def test_without_validation_there_are_no_validate_lines():
    lines = output_block(result(runs("bfs", validated=False))).splitlines()
    assert [label_of(line) for line in lines] == labels(["bfs  "], validated=False)


def test_invalid_run_prints_no_figure():
    block = output_block(result(runs("bfs"), valid=False))
    assert block == "No results printed for invalid run.\n"


def test_one_search_does_not_crash():
    search = SearchRecord("bfs", 1, 0.5, 100, validate_s=0.1)
    block = output_block(Graph500Result(4, 16, 1, 0.1, 1, 0.1, (search,)))
    assert "bfs  harmonic_mean_TEPS:     !  200\n" in block
    assert "bfs  stddev_time:               nan\n" in block


def test_searches_of_kernels_may_be_mixed():
    bfs, sssp = runs("bfs"), runs("sssp")
    mixed = chain(*zip(bfs, sssp, strict=True))
    assert output_block(result(mixed)) == output_block(result(bfs, sssp))


def test_refuses_inconsistent_runs():
    bfs = runs("bfs")
    for searches in ([], runs("apsp"), [*bfs, *runs("apsp")]):
        with pytest.raises(ValueError, match="of each"):
            result(searches)
    with pytest.raises(ValueError, match="has not run"):
        result(bfs, searches=64)
    with pytest.raises(ValueError, match="has not run"):
        result(bfs, bfs)
    with pytest.raises(ValueError, match="edges of some"):
        result([*changed(bfs[:1], edges=None), *bfs[1:]])
    with pytest.raises(ValueError, match="validated, others not"):
        result([*changed(bfs[:1], validate_s=None), *bfs[1:]])
    with pytest.raises(ValueError, match="edge counts"):
        result(bfs, changed(runs("sssp"), edges=1))
    with pytest.raises(ValueError, match="edge counts"):
        result(bfs, changed(runs("sssp"), root=9))
