"""What all tests have in common."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from multiprocessing import forkserver

import dask
import pytest
from distributed.utils import get_mp_context
from hypothesis import HealthCheck, settings

from tests.command_line import call
from tests.job_runs import Command

# The same examples in every run, however slow the machine is: what passes once passes again.
# Others are tried with --hypothesis-profile random.
_UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("same", _UNHURRIED, derandomize=True)
settings.register_profile("random", _UNHURRIED)
settings.load_profile("same")

# What a worker imports before it searches.
_OF_WORKERS = [
    "distributed.worker",
    "ooc_graph.exchange.scheduler",
    "ooc_graph.kernels.cpu.device",
    "ooc_graph.search.many",
    "ooc_graph.search.single",
]
WORKERS_BEGIN = "distributed.worker.multiprocessing-method"


@pytest.fixture(scope="module", autouse=True)
def forked_workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have Dask fork the workers of tests from a process that has imported what they need.

    Spawned ones, as users have them, take seconds to begin and to end. Tests of commands start
    such, and tests on devices, whose workers choose theirs before they import anything.
    """
    if request.path.parent.name == "gpu":
        yield
        return
    with dask.config.set({WORKERS_BEGIN: "forkserver"}):
        # Dask names modules of its own the first time; ours take their place.
        get_mp_context()
        forkserver.set_forkserver_preload(_OF_WORKERS)
        # Now, before a test has another environment, folder or temporary disk.
        forkserver.ensure_running()
        yield


@pytest.fixture(scope="module", autouse=True)
def spared_garbage_collector() -> None:
    """Have Python look for garbage only among what is made from here on.

    numba keeps millions of objects of the kernels that it has compiled. To look through them takes
    more than a second, each time that a test wants garbage to be gone.
    """
    gc.collect()
    gc.freeze()
    # To count what is frozen takes as long as to look through it, and the package asks often.
    vars(gc)["get_freeze_count"] = lambda: 1


@pytest.fixture
def ooc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command, in this process."""
    return lambda *words: call(monkeypatch, capsys, *words)


def pytest_configure(config: pytest.Config) -> None:
    """Take Ctrl-C as an interrupt, also in the background, where shells have it ignored.

    Tests send the signal to themselves and to commands, which inherit what is done with it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Oracles make lists of lists, for which Python would look for garbage most of the time.
    gc.set_threshold(50_000)
