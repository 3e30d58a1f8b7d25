"""What results tell of how they were found, and what is logged and warned of."""

from __future__ import annotations

import json
import logging
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.report import reporter
from ooc_graph.runtime import engine_cache
from tests.said import Said

# Less than the arcs of the dense graph take, and enough for its vertices.
LITTLE = "8MiB"


@pytest.fixture(autouse=True)
def _nothing_said_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(reporter, "_warned", set())
    engine_cache.release()
    yield
    engine_cache.release()


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "dense.zarr"
    return og.build(np.triu_indices(1800, 1), path, directed=False, client=False)


@pytest.fixture(scope="module")
def line() -> og.Graph:
    return og.from_edges([0, 1, 2], [1, 2, 3], [1, 1, 1])


def test_info_of_a_search_in_memory(line: og.Graph) -> None:
    info = og.bfs(line, 0, device="cpu", client=False).info
    assert (info.device, info.strategy, info.method) == ("cpu", "cpu/memory", "rows")
    assert (info.exchange, info.ranks, info.rejected) == ("one", 1, ())
    assert list(info.seconds) == ["plan", "load", "search", "order"]
    assert info.tier_bytes["memory"] > 0
    assert json.loads(json.dumps(info.to_dict()))["strategy"] == "cpu/memory"
    assert "cpu/memory" in repr(info)
    assert "cpu/memory</td>" in info._repr_html_()
    assert pickle.loads(pickle.dumps(info)) == info


def test_info_of_other_methods_and_of_many_sources(line: og.Graph) -> None:
    by_edges = og.sssp(line, 0, method="edges", client=False).info
    assert (by_edges.strategy, by_edges.method) == ("cpu/edges", "edges")
    many = og.multi_source_bfs(line, device="cpu", client=False).info
    assert (many.device, many.method) == ("cpu", "batches")
    assert set(many.seconds) == {"plan", "search"}
    assert many.tier_bytes["memory"] > 0


def test_info_of_an_opened_answer_is_empty(line: og.Graph, tmp_path: Path) -> None:
    written = og.bfs(line, 0, out=tmp_path / "r.zarr", client=False)
    assert "write" in written.info.seconds
    opened = og.BfsResult.open(tmp_path / "r.zarr")
    assert opened.info == og.Info()
    assert "opened from a store" in repr(opened.info)
    assert opened.seconds == opened.tier_bytes == {}


def test_a_search_that_leaves_memory_says_why_and_warns_once(
    dense: og.Graph, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ooc_graph")
    where = {"device": "cpu", "client": False, "memory_limit": LITTLE}
    with pytest.warns(og.FallbackWarning, match="arcs stay in the store") as caught:
        info = og.bfs(dense, 0, **where).info
    assert [one.filename for one in caught] == [__file__]
    assert info.strategy == "cpu/disk"
    assert "needs" in dict(info.rejected)["cpu/memory"]
    assert info.tier_bytes["read"] > 0
    levels = {record.levelno for record in caplog.records}
    assert levels == {logging.INFO, logging.WARNING}
    engine_cache.release()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near = og.bfs(dense, 0, cutoff=0, **where)
    assert near.info.strategy == "cpu/disk"
    assert near.reached.sum() == 1
    # The log has it each time.
    said = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 2


def test_a_search_that_leaves_the_device_warns(line: og.Graph) -> None:
    """A limit of device memory shows that a device is meant, though none is there."""
    said = Said()
    with pytest.warns(og.FallbackWarning, match="bfs on the CPU: a CUDA device needs CuPy"):
        found = og.bfs(line, 0, device_memory="1GiB", progress=said, client=False)
    assert dict(found.info.rejected)["cuda"].startswith("a CUDA device needs CuPy")
    assert [note for note in said.notes if "on the CPU" in note] == [
        "bfs on the CPU: a CUDA device needs CuPy, which is not installed"
    ]


def test_a_warning_that_is_an_error_is_raised_as_it_is(line: og.Graph) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", og.FallbackWarning)
        with pytest.raises(og.FallbackWarning):
            og.bfs(line, 0, device_memory="1GiB", client=False)


def test_no_cupy_and_no_wish_for_a_device_is_no_fallback(line: og.Graph) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert og.bfs(line, 0, client=False).info.rejected == ()
