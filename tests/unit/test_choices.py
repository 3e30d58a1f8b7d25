"""What is chosen for searches stays as it was recorded, see `tests.choices`."""

from __future__ import annotations

from pathlib import Path

from tests import choices


def test_choices_are_those_that_were_recorded(tmp_path: Path) -> None:
    found, recorded = choices.outcomes(tmp_path), choices.recorded()
    assert found.keys() == recorded.keys()
    others = [
        (name, number, before, after)
        for name in recorded
        for number, (before, after) in enumerate(zip(recorded[name], found[name], strict=True))
        if before != after
    ]
    assert others == []
