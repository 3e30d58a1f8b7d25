"""A little of what ``python -m tests.fuzz`` does, always the same; and all inputs that it kept."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.__main__ import fuzz
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


def test_the_same_seed_draws_the_same_inputs() -> None:
    once, again = ([mutated(random.Random(3), [b"1 2\n"]) for _ in range(2)] for _ in range(2))
    assert once == again


@pytest.mark.slow
@pytest.mark.parametrize("name", load_all())
def test_many_inputs(name: str, tmp_path: Path) -> None:
    counts = fuzz(name, 20_000, SEED, tmp_path)
    assert counts["executions"] == 20_000
    assert (counts["defects"], counts["kinds"]) == (0, [])
