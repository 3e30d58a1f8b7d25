"""Graph500 on a device with room for all rows, for some of them, and with arcs in the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.graph500 import batches, on_device
from ooc_graph.graph500.job import graph500
from ooc_graph.graph500.run import Graph500Options
from ooc_graph.report.energy import EnergyMeter
from tests.gpu.test_cuda_disk import refuse_pinning
from tests.said import Said

pytestmark = pytest.mark.usefixtures("released")
KERNELS = pytest.mark.parametrize("kernel", ["bfs", "sssp"])
SCALE, SEARCHES = 16, 4
PINNED = {"bfs": 21_000_000, "sssp": 30_700_000}
"""Device memory with room for the vertices of such a graph, and for less than half of its arcs."""
DISK = {"bfs": 20_800_000, "sssp": 21_200_000}
"""The same where arcs stay in the store."""


def limits(tier: str, kernel: str) -> dict[str, Any]:
    """With which a kernel's rows are where they are to be."""
    if tier == "device":
        return {"device_memory": "1GiB"}
    if tier == "pinned":
        return {"device_memory": PINNED[kernel]}
    return {"device_memory": DISK[kernel], "host_memory": 0}


def run(
    folder: Path,
    said: Said,
    kernel: str,
    *,
    energy: bool = False,
    device: str = "cuda",
    **given: Any,
) -> dict[str, Any]:
    """A validated run; its report, which the record agrees with."""
    options = Graph500Options(SCALE, searches=SEARCHES, kernels=(kernel,), energy=energy)
    where: dict[str, Any] = {"client": None, "memory_limit_bytes": None, "overwrite": False}
    outcome = graph500(options, folder, progress=said, device=device, **where, **given)
    assert outcome.failure is None
    assert f"{kernel.ljust(5)}harmonic_mean_TEPS" in outcome.block
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    (line,) = (folder / "records.jsonl").read_text().splitlines()
    assert json.loads(line)["tiers"] == report["tiers"]
    assert report["validation"]["status"] == "passed"
    return report


def found_by(report: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("kernel", "root", "edges", "reached")
    return [tuple(one[name] for name in names) for one in report["searches"]]


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    folder = tmp_path_factory.mktemp("cpu")
    return {k: found_by(run(folder / k, Said(), k, device="cpu")) for k in PINNED}


@KERNELS
@pytest.mark.parametrize("tier", ["device", "pinned", "disk"])
def test_every_tier_is_validated_and_reported(
    tier: str, kernel: str, right: dict[str, list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    said = Said()
    report = run(tmp_path, said, kernel, **limits(tier, kernel))
    assert found_by(report) == right[kernel]
    assert all(one["time_s"] > 0 and one["levels"] for one in report["searches"])
    assert all(level["arcs"] >= 0 for one in report["searches"] for level in one["levels"])
    page = (tmp_path / "report.html").read_text()
    if tier == "device":
        assert report["tiers"] == {}
        assert "validated on the CPU" not in " ".join(said.notes)
        return
    where = {"pinned": "in pinned host memory", "disk": "in the store"}[tier]
    assert any(note.startswith(f"{kernel} has its rows {where}") for note in said.notes)
    facts, mine = report["tiers"][kernel], report["searches"]
    assert facts["tier"] == tier
    assert facts["device bytes: in all"] <= limits(tier, kernel)["device_memory"]
    assert facts["share of arcs on the device"] < 0.5
    if tier == "disk":
        assert facts["bytes of pinned host memory"] == 0
        assert facts["bytes read of the store"] == sum(one["read_bytes"] for one in mine)
        assert facts["rows fetched"] == sum(one["fetched_rows"] for one in mine) > 0
        assert facts["disk: bytes a second in sequence"] > 0
    assert page.count("Memory and link: " if tier == "pinned" else "Memory and store: ") == 1


@KERNELS
def test_refused_pinning_goes_on_in_the_store(
    kernel: str,
    right: dict[str, list[tuple[Any, ...]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse_pinning(monkeypatch)
    said = Said()
    report = run(tmp_path, said, kernel, **limits("pinned", kernel))
    assert found_by(report) == right[kernel]
    assert report["tiers"][kernel]["tier"] == "disk"
    assert "leaves arcs in the store" in said.notes[0]
    assert said.notes[1].startswith(f"{kernel} has its rows in the store")


@KERNELS
def test_a_validation_without_room_on_the_device_goes_to_the_cpu(
    kernel: str,
    right: dict[str, list[tuple[Any, ...]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object, **__: object) -> int:
        raise MemoryBudgetError("validation wants more bytes on the device")

    monkeypatch.setattr(on_device, "largest_batch", refused)
    said = Said()
    report = run(tmp_path, said, kernel, **limits("device", kernel))
    assert found_by(report) == right[kernel]
    assert [note.split(":")[0] for note in said.notes] == [f"{kernel} validated on the CPU"]
    assert all(level["arcs"] >= 0 for one in report["searches"] for level in one["levels"])


@pytest.mark.parametrize(("tier", "kernel"), [("pinned", "bfs"), ("disk", "sssp")])
def test_energy_is_measured_where_rows_are_elsewhere(
    tier: str, kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[int] = []

    def once(meter: EnergyMeter, turn: Any) -> Any:
        """As `over_repeats`, once: whether it can be measured so is no matter here."""
        with meter:
            turn()
            turns.append(1)
        return meter.energy, 1

    monkeypatch.setattr(batches, "over_repeats", once)
    report = run(tmp_path, Said(), kernel, energy=True, **limits(tier, kernel))
    assert len(turns) == 1
    assert [one["searches"] for one in report["energy"]] == [SEARCHES]


@KERNELS
def test_a_budget_below_the_least_is_refused_with_it(kernel: str, tmp_path: Path) -> None:
    """By the searches: the build needs less."""
    with pytest.raises(MemoryBudgetError, match=r"at least [\d,]+ bytes of device"):
        run(tmp_path, Said(), kernel, device_memory="12MiB", host_memory=0)
