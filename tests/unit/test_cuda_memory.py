"""Whose memory was refused: the device's, or the host's."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.runtime.modules import within_memory


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SimpleNamespace(memGetInfo=lambda: (1, 2))
    made = SimpleNamespace(
        cuda=SimpleNamespace(runtime=runtime),
        get_default_memory_pool=lambda: SimpleNamespace(free_all_blocks=lambda: None),
    )
    monkeypatch.setattr(cuda_modules, "cuda", lambda: made)


def test_an_array_of_the_host_is_not_said_to_be_the_devices() -> None:
    with pytest.raises(MemoryError, match="Unable to allocate") as refused, within_memory("this"):
        np.empty(1 << 62, np.uint8)
    assert not isinstance(refused.value, MemoryBudgetError)


def test_what_the_device_refuses_is_said_in_one_line() -> None:
    with (
        pytest.raises(MemoryBudgetError, match="this does not fit the device: of 7 bytes; 1 of"),
        within_memory("this"),
    ):
        raise MemoryError("of 7 bytes")
