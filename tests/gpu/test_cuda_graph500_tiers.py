"""Graph500 on a device with room for all rows, for some of them, and with arcs in the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.report.energy import EnergyMeter
from ooc_graph.session import cuda_tiers, graph500_cuda, graph500_energy, resident
from ooc_graph.session.graph500 import graph500
from ooc_graph.session.graph500_run import Graph500Options
from tests.gpu.test_cuda_disk import refuse_pinning
from tests.gpu.test_cuda_session import Said

KERNELS = ("bfs", "sssp")
SCALE, SEARCHES = 14, 4
SMALL = 28_000_000
"""Device memory that suffices for the vertices of such a graph, and not for its rows."""
LIMITS: dict[str, dict[str, Any]] = {
    "device": {"device_memory": "1GiB"},
    "pinned": {"device_memory": SMALL},
    "disk": {"device_memory": SMALL, "host_memory": 0},
}


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    resident.release()
    yield
    resident.release()


def run(folder: Path, said: Said, **given: Any) -> dict[str, Any]:
    """A validated run; its report, which the record agrees with."""
    given = {"device": "cuda", **given}
    options = Graph500Options(scale=SCALE, searches=SEARCHES, energy=given.pop("energy", False))
    where: dict[str, Any] = {"client": None, "memory_limit_bytes": None, "overwrite": False}
    outcome = graph500(options, folder, progress=said, **where, **given)
    assert outcome.failure is None
    for kernel in KERNELS:
        assert f"{kernel.ljust(5)}harmonic_mean_TEPS" in outcome.block
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    (line,) = (folder / "records.jsonl").read_text().splitlines()
    assert json.loads(line)["tiers"] == report["tiers"]
    assert report["validation"]["status"] == "passed"
    return report


def found_by(report: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("kernel", "root", "edges", "reached")
    return [tuple(one[name] for name in names) for one in report["searches"]]


def of_kernel(report: dict[str, Any], kernel: str) -> list[dict[str, Any]]:
    return [one for one in report["searches"] if one["kernel"] == kernel]


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    return found_by(run(tmp_path_factory.mktemp("cpu") / "run", Said(), device="cpu"))


@pytest.mark.parametrize("tier", LIMITS)
def test_every_tier_is_validated_and_reported(
    tier: str, right: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    said = Said()
    report = run(tmp_path, said, **LIMITS[tier])
    assert found_by(report) == right
    assert all(one["time_s"] > 0 and one["levels"] for one in report["searches"])
    assert all(level["arcs"] >= 0 for one in report["searches"] for level in one["levels"])
    page = (tmp_path / "report.html").read_text()
    if tier == "device":
        assert report["tiers"] == {}
        assert "validated on the CPU" not in " ".join(said.notes)
        return
    where = {"pinned": "in pinned host memory", "disk": "in the store"}[tier]
    for kernel in KERNELS:
        assert any(note.startswith(f"{kernel} has its rows {where}") for note in said.notes)
        facts, mine = report["tiers"][kernel], of_kernel(report, kernel)
        assert facts["tier"] == tier
        assert facts["device bytes: in all"] <= SMALL
        if tier == "pinned":
            asked = sum(one["asked_bytes"] for one in mine)
            assert facts["bytes asked for over the bus"] == asked > 0
            assert 0 < facts["share of the link's peak"] < 1
        else:
            assert facts["bytes of pinned host memory"] == 0
            assert facts["bytes read of the store"] == sum(one["read_bytes"] for one in mine)
            assert facts["rows fetched"] == sum(one["fetched_rows"] for one in mine)
            assert facts["disk: bytes a second in sequence"] > 0
    assert page.count("Memory and link: " if tier == "pinned" else "Memory and store: ") == 2


def test_refused_pinning_goes_on_in_the_store(
    right: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kernel says so."""
    refuse_pinning(monkeypatch)
    said = Said()
    report = run(tmp_path, said, **LIMITS["pinned"])
    assert found_by(report) == right
    assert [report["tiers"][kernel]["tier"] for kernel in KERNELS] == ["disk", "disk"]
    assert sum("leaves arcs in the store" in note for note in said.notes) == 2


def test_a_validation_without_room_on_the_device_goes_to_the_cpu(
    right: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> int:
        raise MemoryBudgetError("validation wants more bytes on the device")

    monkeypatch.setattr(graph500_cuda, "largest_batch", refused)
    said = Said()
    report = run(tmp_path, said, **LIMITS["device"])
    assert found_by(report) == right
    assert [note.split(":")[0] for note in said.notes] == [
        f"{kernel} validated on the CPU" for kernel in KERNELS
    ]
    assert all(level["arcs"] >= 0 for one in report["searches"] for level in one["levels"])


@pytest.mark.parametrize("tier", ["pinned", "disk"])
def test_energy_is_measured_where_rows_are_elsewhere(
    tier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[int] = []

    def once(meter: EnergyMeter, turn: Any) -> Any:
        """As `over_repeats`, once: whether it can be measured so is no matter here."""
        with meter:
            turn()
            turns.append(1)
        return meter.energy, 1

    monkeypatch.setattr(graph500_energy, "over_repeats", once)
    report = run(tmp_path, Said(), energy=True, **LIMITS[tier])
    assert len(turns) == len(KERNELS)
    assert [one["searches"] for one in report["energy"]] == [SEARCHES] * 2


def test_a_budget_below_the_least_is_refused_with_it(tmp_path: Path) -> None:
    """By the searches: the build needs less."""
    with pytest.raises(MemoryBudgetError, match=r"at least [\d,]+ bytes of device"):
        run(tmp_path, Said(), device_memory="12MiB", host_memory=0)


def test_what_is_asked_over_the_bus_may_go_uncounted(
    right: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_tiers, "COUNT_BUS", False)
    report = run(tmp_path, Said(), **LIMITS["pinned"])
    assert found_by(report) == right
    for kernel in KERNELS:
        assert "bytes asked for over the bus" not in report["tiers"][kernel]
        assert all(one["asked_bytes"] is None for one in of_kernel(report, kernel))
