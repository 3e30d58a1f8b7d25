"""Many sources as they are planned for, and the memory of their answers."""

from __future__ import annotations

from ooc_graph.answers.reductions import HISTOGRAM
from ooc_graph.model.job import Job
from ooc_graph.model.resources import CUDA

ON_DEVICE = ("eccentricity", "closeness", "sum")
"""Reductions that a CUDA device makes itself."""
SUMMED = ("closeness", "sum")
"""Those that add distances up."""
BEYOND = 64
"""Sources whose distances leave the device at once if their sums are beyond float64."""
# Of one source where its distances are reduced: what it reaches, and the number; of a bin its
# count, as Python has it on its way, too.
_REDUCED_BYTES, _BIN_BYTES = 16, 48
# Of a number, or of a bin's count, in a column.
_COUNT_BYTES = 8


def batches_name(device: str) -> str:
    """Name of the strategy that has all arcs in the memory of a device."""
    return f"{device}/batches"


def beside_bytes(job: Job) -> int:
    """Memory of the answer in the process that searches; with a cluster it is the client's."""
    if job.resources.has_client:
        return 0
    if job.in_memory:
        return answer_bytes(job)
    # Numbers become columns of the store when all are found.
    return 0 if job.asked.reduce is None else stored_bytes(job)


def stored_bytes(job: Job) -> int:
    """Bytes of what is written, without ids; of numbers at most."""
    if job.asked.reduce is None:
        return job.spec.length * sum(spec.item_bytes for spec in job.specs)
    counts = job.asked.bins.count if job.asked.reduce == HISTOGRAM else 1
    return job.spec.length * _COUNT_BYTES * (1 + counts)


def _stays_in_process(job: Job) -> bool:
    """Whether answers stay in the memory of the process that searches."""
    return job.in_memory and not job.resources.has_client


def is_in_place(job: Job, device: str) -> bool:
    """Whether distances go where they belong as they are found, so that no task holds any."""
    is_ordered = not job.asked.hops or device == CUDA
    stays = _stays_in_process(job)
    return stays and is_ordered and job.asked.reduce is None and not job.asked.parents


def answer_bytes(job: Job) -> int:
    """Memory of all that was asked for, if it is not somebody else's."""
    if job.asked.has_array:
        return 0
    item = sum(spec.item_bytes for spec in job.specs)
    return job.spec.length * (item if job.asked.reduce is None else _reduced_bytes(job))


def _reduced_bytes(job: Job) -> int:
    """Memory of what is kept of one source."""
    bins = job.asked.bins.count if job.asked.reduce == HISTOGRAM else 0
    return _REDUCED_BYTES + bins * _BIN_BYTES
