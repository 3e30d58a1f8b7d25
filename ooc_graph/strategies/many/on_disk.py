"""Many sources on the CPU with the heads of rows in memory, and their tails in the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ooc_graph.answers.asked import is_narrow
from ooc_graph.answers.reductions import HISTOGRAM
from ooc_graph.kernels.common.tuning import BATCH_SIZE
from ooc_graph.kernels.cpu.store.johnson import batch_row_bytes
from ooc_graph.layout.names import id_dtype
from ooc_graph.memory.cpu.plan import describe, least_bytes, plan_disk
from ooc_graph.model.engine import Engine, load_ids
from ooc_graph.model.request import Job
from ooc_graph.model.reservation import HOST, Refusal, Reservation
from ooc_graph.model.resources import CPU
from ooc_graph.model.strategy import DISK, StrategyDefaults
from ooc_graph.runtime import process
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu.on_disk import has_tiers
from ooc_graph.strategies.many import tiers
from ooc_graph.strategies.many.batches import least_on_cpu
from ooc_graph.strategies.many.described import LEAST, Description, shown
from ooc_graph.strategies.many.task import Division, beside_bytes, require_answer, too_many

BATCH_SIZES = (BATCH_SIZE, BATCH_SIZE // 2, BATCH_SIZE // 4)
"""Most sources of a batch: the first that memory allows."""


class Size(NamedTuple):
    """How the sources are divided for a method."""

    method: str  # one by one or in batches, see `ooc_graph.strategies.many.tiers.methods_of`
    # Sources searched from at once, and chunks of a task.
    batch_size: int
    chunks: int
    beside_bytes: int  # memory of a process beside the rows and what searches of one source hold


# Bytes a column while rows of the answer are made: its place, whether it is none, a distance, and
# what is made of a row: parents and who has them, or a copy of what is reached, or its bins.
_COLUMN_BYTES, _PARENTS_BYTES, _REDUCING_BYTES = 17, 33, 42
# Of a row that is made for a chunk which is written while the task is searched.
_BESIDE_BYTES = 8
# Of one source where its distances are reduced: as Python has the numbers.
_REDUCED_BYTES, _BIN_BYTES = 200, 48


def size_of(job: Job, method: str, batch_size: int) -> Size:
    """How the sources are divided for a method, and so many sources at once."""
    beside = sum(beside_parts(job, method, batch_size).values())
    return Size(method, batch_size, -(-batch_size // job.spec.chunk), beside)


def beside_parts(job: Job, method: str, batch_size: int) -> dict[str, int]:
    """Memory of a process beside the rows and what searches of one source hold, by purpose."""
    state = 0
    if method == tiers.BATCHES:
        ids = id_dtype(job.graph.rows).itemsize if job.asked.parents else 0
        # And each row's place in the answer.
        state = job.graph.rows * (batch_row_bytes(job.spec.dtype, batch_size, ids) + 8)
    is_sent = job.in_memory and job.resources.has_client
    tasks = 1 if job.in_memory and not is_sent else job.resources.threads
    answers = tasks * _task_bytes(job, batch_size, is_sent=is_sent)
    return {"batches": state, "answers of tasks": answers}


def slice_of(job: Job, batch_size: int, chunks: int) -> int:
    """Sources of a task whose distances to all vertices are held at a time; 0: all of them.

    At least ``batch_size`` sources are searched from at a time, and a task has so many chunks.
    """
    sources = min(chunks * job.spec.chunk, job.spec.length)
    slices = sources // batch_size if is_narrow(job.asked) else 1
    return -(-sources // slices) if slices > 1 else 0


def in_turn(job: Job, free_bytes: int) -> list[Size]:
    """Divisions as they are to be tried: those first that hold more, unless one by one is faster.

    A process has ``free_bytes`` for what they hold and for rows.
    """
    row_bytes = BATCH_SIZE * job.spec.dtype.itemsize
    found = [
        size_of(job, method, batch_size)
        for method in tiers.methods_of(job.graph, job.kernel)
        for batch_size in (BATCH_SIZES if method == tiers.BATCHES else (1,))
    ]
    singly = [
        one
        for one in found
        if one.method == tiers.ONE_BY_ONE
        and tiers.takes_one_by_one(job.graph, job.kernel, row_bytes, free_bytes - one.beside_bytes)
    ]
    return singly + [one for one in found if one not in singly]


def _task_bytes(job: Job, batch_size: int, *, is_sent: bool) -> int:
    """Memory of the answers of one task, and of what they are turned into."""
    chunks = -(-batch_size // job.spec.chunk)
    sources = min(chunks * job.spec.chunk, job.spec.length)
    row = job.graph.rows * sum(spec.dtype.itemsize for spec in job.specs)
    width = job.spec.width or 0
    columns = width * _COLUMN_BYTES
    if job.asked.reduce is not None:
        bins = job.asked.bins.count * _BIN_BYTES if job.asked.reduce == HISTOGRAM else 0
        reduced = sources * (_REDUCED_BYTES + bins)
        return min(batch_size, sources) * row + columns + width * _REDUCING_BYTES + reduced
    writing = 1 if job.in_memory else 2
    columns += (writing - 1) * width * _BESIDE_BYTES
    if job.asked.parents:
        columns += writing * width * _PARENTS_BYTES
    if slice_sources := slice_of(job, batch_size, chunks):
        return slice_sources * row + sources * job.spec.item_bytes + columns
    # Sent to who asks; in the same process rows go where they belong.
    block = sum(spec.item_bytes for spec in job.specs) if is_sent else 0
    return sources * (row + block) + columns


@dataclass(frozen=True)
class OnDisk(StrategyDefaults):
    """Batches or searches one by one, with arcs in the store."""

    name = "cpu/disk"
    device = CPU
    tier = DISK

    def lacks(self, job: Job) -> str:
        """The graph is in a store."""
        may = job.graph.rows and has_tiers(job.graph, tiers.single_of(job.kernel))
        return "" if may else "arcs cannot stay in the store"

    def reserve(self, job: Job) -> Reservation:
        """Reads the graph's offsets."""
        require_answer(job)
        division, least = _divide(job, job.resources.least_limit_bytes)
        if division is None:
            raise too_many(job, least)
        return division

    def after(self, job: Job, refusal: Refusal) -> Reservation | None:
        """Half as much host memory, or the least."""
        refused = refusal.reserved
        if refusal.kind != HOST or not isinstance(refused, Division):
            return None
        before = refused.needed_bytes
        limit = before // 2 if refused.strategy == self.name else before // 4 * 3
        division, least = _divide(job, limit)
        if division is None and least < before:
            division, _ = _divide(job, least)
        return division

    def load(self, graph: Graph, kernel: str, reserved: Reservation) -> Engine:
        """Read the heads of rows."""
        within = reserved.method, reserved.host_bytes
        search = tiers.load_within(graph, kernel, *within, process.device())
        return Engine(kernel, search, graph, load_ids(graph), None)

    def summary(self, kernel: str, reserved: Reservation) -> str:
        """How much it reads."""
        assert isinstance(reserved, Division)
        within = f"goes on within {reserved.needed_bytes:,} bytes"
        return f"{kernel} leaves arcs in the store and {within}"

    def describe(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """Heads, blocks of the store that are kept, batches and answers."""
        found = Description.of(job, reserved)
        plan, numbers = found.division, {"numbers": beside_bytes(found)}
        facts = tiers.known_facts(job.graph, job.kernel, plan.method)
        within = describe(plan_disk(facts, plan.host_bytes))
        beside = beside_parts(found, plan.method, plan.batch_size) | numbers
        kept = {name: size for name, size in within.items() if name.startswith("bytes: ")}
        kept.pop("bytes: in all")
        rest = ("arcs of each row in memory", "share of arcs in memory")
        least = min(_divide(found, 0)[1], least_on_cpu(found))
        memory = {
            **({"bytes of a batch": beside["batches"]} if plan.method == tiers.BATCHES else {}),
            **kept,
            **{f"bytes: {name}": size for name, size in beside.items()},
            "bytes: in all": plan.needed_bytes,
            LEAST: least,
            **{name: within[name] for name in rest},
            "bytes that stay in the store": within["bytes that stay in the store"],
        }
        return shown(found, "disk", plan.method, [], memory)


def _divide(job: Job, limit_bytes: int) -> tuple[Division | None, int]:
    """The division that holds most within a limit, or None; and the bytes needed at least."""
    beside, least = beside_bytes(job), 0
    for method, batch_size, chunks, memory in in_turn(job, limit_bytes - beside):
        spare = limit_bytes - beside - memory
        facts = tiers.known_facts(job.graph, job.kernel, method)
        needed = beside + memory + least_bytes(facts)
        if needed <= limit_bytes:
            needed = beside + memory + plan_disk(facts, spare).bytes
            division = Division(
                OnDisk.name,
                spare,
                method=method,
                batch_size=batch_size,
                chunks=chunks,
                needed_bytes=needed,
                slice_sources=slice_of(job, batch_size, chunks),
            )
            return division, needed
        least = min(least or needed, needed)
    return None, least
