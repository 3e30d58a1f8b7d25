"""Times of calls: again and again, in turns, and of searches from the same sources in turns."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

Times = dict[str, list[float]]


class Took(NamedTuple):
    """Seconds that passed, seconds of all processors, and what was returned."""

    elapsed_s: float
    cpu_s: float
    result: Any


def timed(call: Callable[[], Any]) -> Took:
    begun, used = perf_counter(), process_time()
    result = call()
    return Took(perf_counter() - begun, process_time() - used, result)


def repeated(
    call: Callable[[], Any], repeats: int, clock: Callable[..., Took] = timed
) -> list[Took]:
    """Times of several calls after one that does not count: it compiles and fills caches."""
    return [clock(call) for _ in range(repeats + 1)][1:]


def rates(call: Callable[[], Any], count: int, unit: str, repeats: int) -> dict[str, float]:
    """Best and median number of things per second, and per second of processors (steadier)."""
    runs = repeated(call, repeats)
    elapsed_s = [run.elapsed_s for run in runs]
    return {
        f"best_{unit}_per_s": count / min(elapsed_s),
        f"median_{unit}_per_s": count / statistics.median(elapsed_s),
        f"median_{unit}_per_cpu_s": count / statistics.median(run.cpu_s for run in runs),
    }


def medians(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: statistics.median(found) for name, found in times.items()}


def least(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: min(found) for name, found in times.items()}


@contextmanager
def sampled(look: Callable[[], None], interval_s: float) -> Iterator[None]:
    """Context in which a thread looks at something again and again."""
    over = Event()

    def run() -> None:
        while not over.wait(interval_s):
            look()

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@dataclass
class Turns:
    """Times by name, in the order of the turns."""

    times_s: Times
    cpu_s: Times


def take_turns(
    calls: Mapping[str, Callable[[], Any]],
    repeats: int,
    *,
    before: Callable[[str], object] = lambda _: None,
    check: Callable[[str, Any], object] = lambda _, __: None,
    clock: Callable[..., Took] = timed,
    long_s: float = float("inf"),
) -> Turns:
    """Time calls in turns; each result is forgotten before the next call.

    ``before`` and ``check`` are called before and after each, outside the time, with its name, and
    with its result. ``clock`` is `timed`, or that of a device. There is no second turn if a call
    takes longer than ``long_s`` in the first.
    """
    turns = Turns({name: [] for name in calls}, {name: [] for name in calls})
    for turn in range(repeats):
        if turn and max(found[0] for found in turns.times_s.values()) > long_s:
            break
        for name, call in calls.items():
            before(name)
            elapsed_s, cpu_s, result = clock(call)
            turns.times_s[name].append(elapsed_s)
            turns.cpu_s[name].append(cpu_s)
            check(name, result)
            del result
    return turns


def same_bytes(message: str = "the answers differ") -> Callable[[str, Any], None]:
    """A check that ends the program if an array differs from the first one that it was given."""
    expected: list[Any] = []

    def check(name: str, answer: Any) -> None:
        if not expected:
            expected.append(answer)
        elif answer.tobytes() != expected[0].tobytes():
            raise SystemExit(f"{name}: {message}")

    return check


def alternate(
    searches: Mapping[str, Any],
    roots: Sequence[int],
    seen: Callable[[str, Any, float], None] = lambda *_: None,
) -> Times:
    """Seconds of searches alone, by name, from each root in turn; answers must be the same bytes.

    The order is turned around with every root. One search of each goes before and does not count.
    ``seen`` is called with the name, the tree, and the seconds that passed until it was returned.
    """
    times: Times = {name: [] for name in searches}
    for search in searches.values():
        search.run(roots[0])
    for turn, root in enumerate(roots):
        answers = set()
        for name in list(searches)[:: -1 if turn % 2 else 1]:
            begun = perf_counter()
            tree = searches[name].run(root)
            whole_s = perf_counter() - begun
            times[name].append(tree.elapsed_s)
            seen(name, tree, whole_s)
            answers.add(answer_of(tree))
        if len(answers) > 1:
            raise SystemExit(f"the answers from internal id {root} differ")
    return times


def measure_of(tree: Any) -> Any:
    """Levels or distances."""
    return tree.level if hasattr(tree, "level") else tree.distance


def reached_by(tree: Any) -> Any:
    """Whether each row was reached."""
    return tree.parent != np.iinfo(tree.parent.dtype).max


def answer_of(tree: Any) -> tuple[bytes, bytes]:
    return tree.parent.tobytes(), measure_of(tree).tobytes()


def arcs_of(tree: Any) -> int:
    """Arcs that a search looked at."""
    if hasattr(tree, "level_arcs"):
        return int(tree.level_arcs.sum())
    return sum(tree.phase_arcs.values())
