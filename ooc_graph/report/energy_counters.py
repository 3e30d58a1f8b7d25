"""Counters of energy: NVML's of CUDA devices, and RAPL's of CPU packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


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
