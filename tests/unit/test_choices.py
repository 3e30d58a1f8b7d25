"""What is chosen for searches stays as it was recorded, see `tests.choices`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import choices


# An odd step, so that of limits that are just enough and just not both are tried.
@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_choices_are_those_that_were_recorded(every: int, tmp_path: Path) -> None:
    found = choices.outcomes(tmp_path, every)
    recorded = {name: said[::every] for name, said in choices.recorded().items()}
    assert found.keys() == recorded.keys()
    others = [
        (name, number * every, before, after)
        for name in recorded
        for number, (before, after) in enumerate(zip(recorded[name], found[name], strict=True))
        if before != after
    ]
    assert others == []
