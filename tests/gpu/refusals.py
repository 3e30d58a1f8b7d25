"""Searches whose device refuses them memory: how they are asked for, and that they end the same."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.runtime import engine_cache
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from tests.gpu.memory import Refusing
from tests.gpu.searching import hub, search
from tests.said import Said

BEGUN = "on the device", "pinned", "in the store"
LEAST_ALLOCATIONS = 15


def wanted(
    graph: og.Graph, kernel: str, begun: str, arrays: str, patch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Options of a search that begins in one of the tiers, with something to give up there."""
    options: dict[str, Any] = {"device": "cuda", "arrays": arrays}
    if begun == "pinned":
        options["device_memory"] = cuda_memory.cuda_bytes(graph, kernel) - 1
    elif begun == "in the store":
        # So that the graph is too large for pinned memory, as small as it is.
        patch.setattr(cuda_pinned, "may_pin", lambda *_: False)
        least = cuda_disk.least_plan(cuda_disk.known_facts(graph, kernel))
        answer = cuda_disk.answer_device_bytes(graph) if arrays == "cupy" else 0
        options["device_memory"] = least.device_bytes + 64 * graph.rows + answer
        options["host_memory"] = least.host_bytes + 48 * graph.rows
    return options


def columns(found: Any, arrays: str) -> dict[str, bytes]:
    read = found.on_host if arrays == "cupy" else found.read
    return {name: np.asarray(read(name)).tobytes() for name in found.names}


def has_begun(begun: str, notes: list[str]) -> bool:
    """Whether a search that nothing was refused to is where it was to begin."""
    words = {"on the device": "", "pinned": "in pinned host memory", "in the store": "of the store"}
    said = " ".join(notes)
    return "refused" not in said and words[begun] in said and bool(said) == bool(words[begun])


def refuse_in_turn(
    kernel: str, begun: str, arrays: str, graph: og.Graph, patch: pytest.MonkeyPatch
) -> None:
    """Refuse each allocation on the device, one a search: same bytes, a line, and nothing left."""
    cupy, root = cuda_modules.cuda(), hub(graph)
    options = wanted(graph, kernel, begun, arrays, patch)
    right = columns(search(kernel)(graph, root, device="cpu"), "numpy")
    pool = cupy.get_default_memory_pool()
    allocator = Refusing(pool)

    def used() -> int:
        engine_cache.release()
        gc.collect()
        return int(pool.used_bytes())

    def notes_without(refused: int) -> tuple[list[str], int]:
        # What the search before keeps would need no allocation.
        engine_cache.release()
        said = Said()
        allocator.made, allocator.refused = 0, refused
        found = search(kernel)(graph, root, progress=said, **options)
        made, allocator.refused = allocator.made, 0
        assert columns(found, arrays) == right, f"allocation {refused}"
        return said.notes, made

    with cupy.cuda.using_allocator(allocator):
        for _ in range(2):  # what the first compiles and measures the others need not
            notes, count = notes_without(0)
            assert has_begun(begun, notes), notes
        assert count >= LEAST_ALLOCATIONS
        before = used()
        for refused in range(1, count + 1):
            notes, _ = notes_without(refused)
            said = f"allocation {refused} of {count}: {notes}"
            assert any("memory was refused" in note for note in notes), said
        assert used() == before
