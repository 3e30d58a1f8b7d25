"""A little of what ``python -m tests.fuzz`` does, always the same; and all inputs that it kept."""

from __future__ import annotations

import json
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from ooc_graph.errors import InputError, JobError, MemoryBudgetError, StorageError
from tests.fuzz.__main__ import fuzz, slowness
from tests.fuzz.engine import Campaign
from tests.fuzz.mutations import mutated
from tests.fuzz.targets import READ, REFUSED, Fuzzed, load_all

SEED = 20261128
EXECUTIONS = 150
KEPT = Path(__file__).parent / "seeds"
"""A folder for each target: inputs that were neither read nor refused once."""
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    # numpy warns of headers that Python 2 wrote.
    with warnings.catch_warnings(action="ignore"):
        yield


@pytest.fixture(scope="module", params=load_all())
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Fuzzed]:
    name: str = request.param
    return name, load_all()[name](tmp_path_factory.mktemp(name))


def test_what_is_nearly_right(target: tuple[str, Fuzzed]) -> None:
    name, fuzzed = target
    draw, outcomes = random.Random(SEED), Counter[str]()
    assert READ in {fuzzed.outcome(seed) for seed in fuzzed.seeds}
    for number in range(EXECUTIONS):
        data = mutated(draw, fuzzed.seeds)
        try:
            outcomes[fuzzed.outcome(data)] += 1
        except Exception as error:
            error.add_note(f"{name}, seed {SEED}, execution {number}: {data!r}")
            raise
    assert outcomes.total() == EXECUTIONS


def test_inputs_of_defects(target: tuple[str, Fuzzed]) -> None:
    name, fuzzed = target
    for path in sorted((KEPT / name).glob("*")):
        assert fuzzed.outcome(path.read_bytes()) in (READ, REFUSED), path


def test_every_kept_input_has_its_target() -> None:
    assert {path.name for path in KEPT.iterdir()} <= set(load_all())


def test_defects_are_counted_and_kept(tmp_path: Path) -> None:
    def read(data: bytes) -> None:
        if b"e" in data:
            raise InputError("no e")
        if b"k" in data:
            raise KeyError(data)

    campaign = Campaign(tmp_path, lambda _: Fuzzed([b"1"], read), 6)
    for data in (b"1", b"2e", b"a long kk", b"kk", b"kkk", b"5"):
        campaign.execute(data)
    assert campaign.counts == {"executions": 6, READ: 2, REFUSED: 1, "defects": 3}
    (kept,) = tmp_path.glob("defect-KeyError-test_fuzz-*[0-9]")
    assert kept.read_bytes() == b"kk"
    assert json.loads((tmp_path / "counts.json").read_text())["defects"] == 3


def test_what_is_no_refusal() -> None:
    def refusing(error: Exception) -> Fuzzed:
        return Fuzzed([], Mock(side_effect=error))

    assert refusing(InputError("a\nb\x1b")).outcome(b"") == REFUSED
    with pytest.raises(AssertionError, match="not one line"):
        refusing(JobError("a\nb")).outcome(b"")
    for error in (MemoryBudgetError("no memory"), StorageError("refused"), OSError("no file")):
        with pytest.raises(type(error)):
            refusing(error).outcome(b"")


def test_the_same_seed_draws_the_same_inputs() -> None:
    once, again = ([mutated(random.Random(3), [b"1 2\n"]) for _ in range(2)] for _ in range(2))
    assert once == again


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", load_all())
def test_many_inputs(name: str, tmp_path: Path) -> None:
    executions = 20_000 // slowness(name)
    counts = fuzz(name, executions, SEED, tmp_path / name)
    assert counts["executions"] == executions
    assert (counts["defects"], counts["kinds"]) == (0, [])
