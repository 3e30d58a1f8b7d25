"""Forked children search as their parent does, or say at once why not; none waits for ever."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import ooc_graph as og
from tests import forks
from tests.command_line import running

LIMIT_S = 280


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("forks")
    og.build(forks.EDGES, made / "graph.zarr", device="cpu", shards=2)
    return made


@pytest.mark.parametrize(
    "program",
    [
        forks.after,
        forks.everything_in_each,
        forks.from_a_thread,
        forks.while_another_thread_works,
        forks.in_forked_pools,
        # As in those of a fork server, from which more is inherited.
        pytest.param(forks.in_spawned_pools, marks=pytest.mark.slow),
        forks.in_pools_of_a_fork_server,
        forks.rows_are_shared,
        forks.while_compiling,
        forks.while_importing,
        forks.clients_of_the_parent,
        forks.clients_of_the_child,
        forks.cuda_of_the_parent,
        forks.progress_of_the_parent,
        forks.locks_on_files,
    ],
    ids=lambda program: program.__name__,
)
def test_children(program: Callable[[Path], None], folder: Path) -> None:
    words = ["-W", "ignore::DeprecationWarning", "-m", "tests.forks", program.__name__, folder]
    with running(words) as process:
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail(f"{program.__name__} has not ended for {LIMIT_S} s")
    assert process.returncode == 0, out + err
    # Neither a traceback nor what Python says of errors that it drops.
    assert not err
