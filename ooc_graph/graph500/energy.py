"""Energy of Graph500's searches: they are repeated on the worker that holds the graph."""

from __future__ import annotations

from ooc_graph.graph500 import on_device
from ooc_graph.graph500.run import BatchTask, Run, Searched
from ooc_graph.model.resources import CUDA
from ooc_graph.report.data import EnergyRecord
from ooc_graph.report.energy import EnergyMeter, energy_record, over_repeats
from ooc_graph.report.statistics import teps_statistics
from ooc_graph.search.trees import run_search
from ooc_graph.types import IntArray


def measure(run: Run, task: BatchTask, keys: IntArray, searched: list[Searched]) -> EnergyRecord:
    """Energy of searches from all keys, where a counter can be read; else why there is none."""
    times_s = [one.trace.elapsed_s for one in searched]
    teps = teps_statistics(times_s, [one.edges for one in searched]).harmonic_mean
    with run.progress.stage(f"{task.kernel}: energy"):
        record: EnergyRecord = run.timed(
            f"{task.kernel} energy", lambda: run.workplace.call(repeat, task, keys, teps)
        )
    return record


def repeat(task: BatchTask, keys: IntArray, teps: float) -> EnergyRecord:
    """Search from all keys again and again; runs on the worker."""
    with task.engine() as engine:
        if task.device == CUDA:
            meter = EnergyMeter([on_device.device_id()])
            energy, turns = over_repeats(meter, lambda: on_device.search_from_all(engine, keys))
        else:

            def turn() -> None:
                for key in keys.tolist():
                    run_search(engine, key)

            energy, turns = over_repeats(EnergyMeter(), turn)
    return energy_record(task.kernel, teps, turns * len(keys), energy)
