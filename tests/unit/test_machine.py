"""Memory that a process may take by itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from ooc_graph.session import machine


@pytest.mark.parametrize(
    ("limits", "expected"),
    [([], 8000), (["max"], 8000), (["5000", "max"], 4000), (["20000"], 8000)],
)
def test_default_limit_heeds_those_limits_that_there_are(
    limits: list[str], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, limit in enumerate(limits):
        (tmp_path / str(number)).write_text(f"{limit}\n")
    names = [str(tmp_path / str(number)) for number in range(3)]
    monkeypatch.setattr(machine, "_LIMITS", names)
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: SimpleNamespace(available=10_000))
    assert machine.default_limit_bytes() == expected
