"""Energy that devices and CPU packages take while a piece of work runs, and MTEPS/W.

Two counters are read: NVML's total energy of a CUDA device (millijoules since the driver was
loaded; Volta and newer), and RAPL's of CPU packages if Linux lets this process read it. Power
supplies, memory modules, disks and fans are in neither.

The metric is Green Graph500's [1]_: harmonic mean TEPS of the searches, in millions, over the
average power in watts while such searches are repeated.

References
----------
.. [1] Green Graph500: rules for submissions, https://graph500.org.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from ooc_graph.report.data import EnergyRecord

LEAST_S = 10.0
"""Seconds of work from which on a figure counts: the counters move in steps of up to 0.1 s."""

POWERCAP = Path("/sys/class/powercap")
"""Folder of RAPL's zones."""
INTERVAL_S = 30.0
"""Seconds between readings: a package's counter runs around within a quarter of an hour."""
_NO_BINDING = (
    "NVML's Python binding is not installed (nvidia-ml-py; the extras cuda12 and cuda13 have it)"
)


@dataclass(frozen=True)
class Energy:
    """What was measured around a piece of work.

    ``joules`` are by domain, such as ``NVIDIA H200 (NVML)`` or ``CPU package-0 (RAPL)``. ``reason``
    says what could not be read, and why; it is empty if everything asked for was.
    """

    seconds: float
    joules: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""

    @property
    def watts(self) -> float | None:
        """Average power of all domains, or None if there is none."""
        if not self.joules or self.seconds <= 0:
            return None
        return sum(self.joules.values()) / self.seconds

    @property
    def counts(self) -> bool:
        """Whether there is a figure, over at least `LEAST_S`."""
        return bool(self.joules) and self.seconds >= LEAST_S


class EnergyMeter:
    """Measure energy while a ``with`` block runs; `energy` is there when it has ended.

    What cannot be read is left out, and `Energy.reason` says why: measuring energy never makes a
    run fail. CUDA devices are given by UUID (``GPU-...``) or PCI bus id (``0000:1b:00.0``), as NVML
    does not know how ``CUDA_VISIBLE_DEVICES`` numbers them. CPU packages are left out if
    ``packages`` is false.
    """

    def __init__(self, devices: Sequence[str] = (), *, packages: bool = True) -> None:
        self._devices, self._packages = tuple(devices), packages
        self._counters: list[Counter] = []
        self._reasons: list[str] = []
        self._nvml: Any = None
        self._unreadable: tuple[type[Exception], ...] = (OSError, ValueError)
        self._stop = threading.Event()
        self._reading = threading.Lock()
        self._thread: threading.Thread | None = None
        self._energy: Energy | None = None

    def __enter__(self) -> EnergyMeter:
        if self._thread is not None:
            raise RuntimeError("an EnergyMeter measures once")
        self._open()
        self._read()
        self._begun_s = perf_counter()
        self._thread = threading.Thread(target=self._watch, name="energy", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._read()
        seconds = perf_counter() - self._begun_s
        self._stop.set()
        assert self._thread is not None
        self._thread.join()
        joules = {counter.name: counter.used_uj / 1e6 for counter in self._counters}
        self._energy = Energy(seconds, joules, "; ".join(self._reasons))
        if self._nvml is not None:
            self._nvml.nvmlShutdown()

    @property
    def measures(self) -> bool:
        """Whether there is a counter to read, once the block has begun."""
        return bool(self._counters)

    @property
    def energy(self) -> Energy:
        """What the block took; RuntimeError before it has ended."""
        if self._energy is None:
            raise RuntimeError("energy is known when the block has ended")
        return self._energy

    def _open(self) -> None:
        if self._devices:
            self._counters += self._open_devices()
        if self._packages:
            found = list(package_counters(POWERCAP))
            if not found:
                self._reasons.append(
                    f"no CPU package has a RAPL counter that may be read: {POWERCAP}"
                )
            self._counters += found

    def _open_devices(self) -> Iterator[Counter]:
        try:
            import pynvml  # noqa: PLC0415 - wanted with CUDA devices only
        except ImportError:
            self._reasons.append(_NO_BINDING)
            return
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self._reasons.append(f"NVML cannot be used: {error}")
            return
        self._nvml = pynvml
        self._unreadable += (pynvml.NVMLError,)
        for device in self._devices:
            try:
                yield device_counter(pynvml, device)
            except pynvml.NVMLError as error:
                self._reasons.append(f"NVML does not give device {device}: {error}")

    def _read(self) -> None:
        """Read all counters; one that cannot be read any more is dropped."""
        with self._reading:
            for counter in list(self._counters):
                try:
                    counter.read()
                except self._unreadable as error:
                    self._counters.remove(counter)
                    self._reasons.append(f"{counter.name} cannot be read: {error}")

    def _watch(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            self._read()


def over_repeats(meter: EnergyMeter, turn: Callable[[], object]) -> tuple[Energy, int]:
    """Energy of as many calls of ``turn`` as make it count, and how many; of none if unknown."""
    turns = 0
    with meter:
        begun = perf_counter()
        while meter.measures and (turns == 0 or perf_counter() - begun < LEAST_S):
            turn()
            turns += 1
    return meter.energy, turns


def energy_record(kernel: str, teps: float, searches: int, energy: Energy) -> EnergyRecord:
    """What a report keeps of a kernel's energy; ``teps`` is the harmonic mean."""
    reason, mteps_per_watt = energy.reason, None
    if energy.counts and energy.watts:
        mteps_per_watt = teps / 1e6 / energy.watts
    if energy.joules and not energy.counts:
        short = f"measured over {energy.seconds:.1f} s; a figure counts from {LEAST_S:g} s on"
        reason = "; ".join(filter(None, (short, reason)))
    return EnergyRecord(
        kernel,
        searches=searches,
        seconds=energy.seconds,
        joules=dict(energy.joules),
        watts=energy.watts,
        mteps_per_watt=mteps_per_watt,
        reason=reason,
    )


class Counter:
    """A counter that only grows, except that it begins again after ``range_uj``."""

    range_uj: int | None = None

    def __init__(self, name: str, read_uj: Callable[[], int]) -> None:
        self.name, self._read_uj = name, read_uj
        self.used_uj, self._last_uj = 0, read_uj()

    def read(self) -> None:
        """Add what was used since it was last read."""
        now_uj = self._read_uj()
        grown_uj = now_uj - self._last_uj
        if grown_uj < 0 and self.range_uj is not None:
            grown_uj += self.range_uj + 1
        self.used_uj += max(grown_uj, 0)
        self._last_uj = now_uj


def device_counter(nvml: Any, device: str) -> Counter:
    """A device's counter, by its UUID or PCI bus id."""
    by_uuid = device.upper().startswith(("GPU-", "MIG-"))
    find = nvml.nvmlDeviceGetHandleByUUID if by_uuid else nvml.nvmlDeviceGetHandleByPciBusId
    handle = find(device)
    name = nvml.nvmlDeviceGetName(handle)
    name = name.decode() if isinstance(name, bytes) else name
    return Counter(
        f"{name}, {device} (NVML)",
        lambda: int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) * 1000,
    )


def package_counters(powercap: Path) -> Iterator[Counter]:
    """Packages that this process may read; parts of them (cores, memory) are not counted again.

    What is readable: since Linux 5.10 the counters are root's alone, unless somebody opened them.
    """
    for zone in sorted(powercap.glob("*:*")):
        try:
            name = (zone / "name").read_text().strip()
            if name.startswith("package"):
                energy = zone / "energy_uj"
                counter = Counter(f"CPU {name} (RAPL)", lambda e=energy: int(e.read_text()))  # type: ignore[misc]
                counter.range_uj = int((zone / "max_energy_range_uj").read_text())
                yield counter
        except (OSError, ValueError):
            continue
