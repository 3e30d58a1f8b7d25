"""Energy: counters of devices and packages, what is missing in words, the rule of ten seconds."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

from ooc_graph.report import energy
from ooc_graph.report.energy import Energy, EnergyMeter, energy_record, over_repeats

UUID, BUS = "GPU-aaaa-1", "0000:1B:00.0"


class Nvml(ModuleType):
    """A driver with two devices: one counts energy, the other is too old."""

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.millijoules = 5_000_000
        self.open = 0
        self.lost = False

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return self._handle(uuid, {UUID: "new", "GPU-old": "old"})

    def nvmlDeviceGetHandleByPciBusId(self, bus: str) -> str:
        return self._handle(bus, {BUS: "new"})

    def _handle(self, name: str, known: dict[str, str]) -> str:
        if name not in known:
            raise self.NVMLError("Not Found")
        return known[name]

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return b"NVIDIA H200"

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        if self.lost:
            raise self.NVMLError("GPU is lost")
        if handle == "old":
            raise self.NVMLError("Not Supported")
        return self.millijoules


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    driver = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    return driver


@pytest.fixture
def powercap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(energy, "POWERCAP", tmp_path)
    return tmp_path


def zone(folder: Path, entry: str, name: str, microjoules: int, most: int = 999_999) -> Path:
    made = folder / entry
    made.mkdir(parents=True)
    (made / "name").write_text(f"{name}\n")
    (made / "energy_uj").write_text(f"{microjoules}\n")
    (made / "max_energy_range_uj").write_text(f"{most}\n")
    return made / "energy_uj"


@pytest.mark.parametrize("device", [UUID, BUS])
def test_a_device_by_its_counter(nvml: Nvml, device: str) -> None:
    with EnergyMeter([device], packages=False) as meter:
        assert nvml.open == 1
        nvml.millijoules += 7_250
    assert meter.energy.joules == {f"NVIDIA H200, {device} (NVML)": pytest.approx(7.25)}
    assert meter.energy.reason == ""
    assert meter.energy.watts == pytest.approx(7.25 / meter.energy.seconds)
    assert nvml.open == 0


def test_devices_that_cannot_be_read_are_named(nvml: Nvml) -> None:
    with EnergyMeter([UUID, "GPU-old", "GPU-none"], packages=False) as meter:
        nvml.millijoules += 1_000
    assert list(meter.energy.joules) == [f"NVIDIA H200, {UUID} (NVML)"]
    assert meter.energy.reason == (
        "NVML does not give device GPU-old: Not Supported; "
        "NVML does not give device GPU-none: Not Found"
    )


def test_a_device_that_is_lost_has_no_figure(nvml: Nvml) -> None:
    with EnergyMeter([UUID], packages=False) as meter:
        nvml.lost = True
    assert meter.energy.joules == {}
    assert meter.energy.watts is None
    assert "cannot be read: GPU is lost" in meter.energy.reason


def test_no_binding_and_no_driver(monkeypatch: pytest.MonkeyPatch, nvml: Nvml) -> None:
    def no_driver() -> None:
        raise nvml.NVMLError("Driver Not Loaded")

    monkeypatch.setattr(nvml, "nvmlInit", no_driver)
    with EnergyMeter([UUID], packages=False) as meter:
        pass
    assert meter.energy.reason == "NVML cannot be used: Driver Not Loaded"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with EnergyMeter([UUID], packages=False) as meter:
        pass
    assert meter.energy == Energy(meter.energy.seconds, {}, meter.energy.reason)
    assert "nvidia-ml-py" in meter.energy.reason


def test_packages_and_not_their_parts(powercap: Path) -> None:
    first = zone(powercap, "intel-rapl:0", "package-0", 1_000_000, most=9_999_999)
    second = zone(powercap, "intel-rapl:1", "package-1", 500, most=9_999_999)
    parts = [
        zone(powercap, "intel-rapl:0:0", "core", 10),
        zone(powercap, "intel-rapl:0:1", "dram", 10),
        zone(powercap, "intel-rapl:2", "psys", 10),
    ]
    (powercap / "intel-rapl").mkdir()
    with EnergyMeter() as meter:
        first.write_text("3500000\n")
        second.write_text("1000500\n")
        for part in parts:
            part.write_text("999999\n")
    assert meter.energy.joules == {
        "CPU package-0 (RAPL)": pytest.approx(2.5),
        "CPU package-1 (RAPL)": pytest.approx(1.0),
    }
    assert sum(meter.energy.joules.values()) == pytest.approx(3.5)


def test_a_counter_that_runs_around(powercap: Path) -> None:
    counter = zone(powercap, "intel-rapl:0", "package-0", 900_000, most=999_999)
    with EnergyMeter() as meter:
        counter.write_text("100000\n")
    assert sum(meter.energy.joules.values()) == pytest.approx(0.2)


def test_a_counter_that_runs_around_again_and_again(
    powercap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readings in between see each time round."""
    monkeypatch.setattr(energy, "INTERVAL_S", 0.002)
    counter = zone(powercap, "intel-rapl:0", "package-0", 0, most=999_999)
    with EnergyMeter() as meter:
        seen = meter._counters[0]
        for microjoules in (600_000, 200_000, 800_000, 400_000):
            before = seen.used_uj
            # Whole at once: a reader never finds an empty file.
            (powercap / "next").write_text(f"{microjoules}\n")
            (powercap / "next").replace(counter)
            deadline = time.monotonic() + 120
            while seen.used_uj == before and time.monotonic() < deadline:
                time.sleep(0.001)
    assert sum(meter.energy.joules.values()) == pytest.approx(2.4)
    assert "energy" not in {thread.name for thread in threading.enumerate()}


def test_no_package_can_be_read(powercap: Path) -> None:
    (powercap / "intel-rapl:0").mkdir()
    (powercap / "intel-rapl:0" / "name").write_text("package-0\n")
    with EnergyMeter() as meter:
        pass
    assert meter.energy.joules == {}
    assert meter.energy.watts is None
    assert meter.energy.reason == f"no CPU package has a RAPL counter that may be read: {powercap}"


def test_one_measurement_a_meter(powercap: Path) -> None:
    meter = EnergyMeter()
    with pytest.raises(RuntimeError, match="when the block has ended"):
        _ = meter.energy
    with meter:
        pass
    with pytest.raises(RuntimeError, match="measures once"), meter:
        pass


def test_work_is_repeated_until_it_counts(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, done = [50.0], []
    monkeypatch.setattr(energy, "perf_counter", lambda: now_s[0])

    def turn() -> None:
        nvml.millijoules += 1_000
        now_s[0] += 3.0
        done.append(now_s[0])

    taken, turns = over_repeats(EnergyMeter([UUID], packages=False), turn)
    assert turns == len(done) == 4
    assert taken.seconds == 12.0
    assert sum(taken.joules.values()) == pytest.approx(turns)


def test_only_ten_seconds_count() -> None:
    long, short = Energy(10.0, {"a": 1500.0, "b": 500.0}), Energy(9.9, {"a": 1980.0})
    assert energy_record("bfs", 4e11, 1, short).mteps_per_watt is None
    assert energy_record("bfs", 4e11, 1, Energy(20.0)).mteps_per_watt is None
    record = energy_record("bfs", 4e11, 640, long)
    assert (record.kernel, record.searches, record.watts) == ("bfs", 640, 200)
    assert record.mteps_per_watt == pytest.approx(4e5 / 200)
    assert record.reason == ""
    record = energy_record("sssp", 4e11, 3, Energy(9.9, {"a": 1980.0}, "no package"))
    assert record.mteps_per_watt is None
    assert record.watts == pytest.approx(200)
    assert record.reason == "measured over 9.9 s; a figure counts from 10 s on; no package"
