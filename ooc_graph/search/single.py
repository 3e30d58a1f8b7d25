"""One search: on one rank that holds the whole graph, or on the ranks of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from ooc_graph.answers.late import LateColumns, columns_into, require_columns, require_no_store
from ooc_graph.answers.paths import vertex_id
from ooc_graph.answers.result import Result, TreeResult
from ooc_graph.errors import UsageError
from ooc_graph.layout.checkpoints import may_end_well
from ooc_graph.layout.commit import Partial, partial_store
from ooc_graph.layout.keys import key_for, say_changed
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.layout.stored import Stored
from ooc_graph.model.request import SCHEDULER, Request
from ooc_graph.model.reservation import ONE
from ooc_graph.model.resources import CUDA
from ooc_graph.model.task import Written
from ooc_graph.runtime import io_progress, same_graph
from ooc_graph.runtime.workplace import Workplace
from ooc_graph.search.execute import execute, plan_at
from ooc_graph.search.plan import Plan
from ooc_graph.search.trees import ALGORITHMS
from ooc_graph.shards.load import Graph
from ooc_graph.sinks.single import CUPY, DASK, NUMPY, answer_bytes, tree_specs
from ooc_graph.types import AnyArray, Progress


def search(
    graph: Graph,
    kernel: str,
    root: int | None = None,
    *,
    workplace: Workplace,
    progress: Progress,
    out: Path | None = None,
    like: Stored | None = None,
    overwrite: bool = False,
    arrays: str | Mapping[str, AnyArray] = NUMPY,
    **how: Any,
) -> Result:
    """Search from one vertex, or the whole graph, and give the answer, or write it.

    ``arrays`` says where an answer lies that is not written, or gives arrays for columns by name;
    ``like`` is an answer beside ``out``, with which the one that is written shares its vertices.
    ``how`` are the ``exchange``, ``method`` and ``within`` of a `Request`, and what is ``given``.

    Errors are those of `ooc_graph.bfs`, and NegativeWeightError; nothing is written then.
    """
    same_graph.require_same(graph)
    graph.require(ORDER_OF[kernel])
    what = kernel
    if issubclass(ALGORITHMS[kernel].result, TreeResult):
        root = _as_id(root)
        graph.position_of(root)
        what = f"{kernel} from {root}"
    into, arrays = (None, arrays) if isinstance(arrays, str) else (arrays, NUMPY)
    _require_known(arrays, workplace, out)
    if into is not None:
        require_no_store(into, out)
        require_columns(into, tree_specs(graph, kernel))
    kept_bytes = 0 if out is not None else answer_bytes(graph, kernel, arrays)
    kept_bytes -= sum(array.nbytes for array in (into or {}).values())
    how |= {"on_device": arrays == CUPY, "on_worker": arrays == DASK}
    request = Request(kernel, **how, answer_bytes=kept_bytes)
    begun = perf_counter()
    first = plan_at(workplace, graph, request)
    planned = perf_counter()
    _require_arrays(arrays, first, workplace, out)
    writing = nullcontext() if out is None else _written(first, root, out, overwrite, progress)
    reported = io_progress.reported(graph.identity, what, workplace.client, progress)
    with writing as store, progress.stage(what), reported:

        def run(plan: Plan) -> tuple[Written, Plan]:
            return search_by(plan, root, workplace, store, like), plan

        written, used = execute(first, workplace, progress, run)
        found = perf_counter()
        for note in written.notes:
            progress.note(note)
        if store is not None:
            name = ALGORITHMS[kernel].result.kernel
            attributes = {"kernel": name, "graph_sha256": graph.content_sha256}
            attributes |= written.attributes
            store.commit("result", attributes, written.specs, written.entries)
    search_s, order_s = written.trace.elapsed_s, written.order_s
    spent = {"plan": planned - begun, "load": found - planned - search_s - order_s}
    spent["search"] = search_s
    result: Result
    if out is None:
        result = result_of(kernel, root, written)
        if into is not None:
            result = replace(result, columns=columns_into(written.columns or {}, into))
    else:
        result = replace(Result.open(out), elapsed_s=search_s)
    spent["order" if out is None else "write"] = order_s + perf_counter() - found
    if isinstance(result.columns, LateColumns):
        # Late ones of a worker have been put in order before.
        spent |= {"order": order_s + result.columns.seconds["order"]}
        result.columns.seconds = spent
    info = replace(used.info, ranks=written.ranks, seconds=spent)
    if written.read_bytes is not None:
        info = replace(info, tier_bytes={**info.tier_bytes, "read": written.read_bytes})
    return replace(result, info=info)


@contextmanager
def _written(
    first: Plan, root: int | None, out: Path, overwrite: bool, progress: Progress
) -> Iterator[Partial]:
    """The store; with the states that ranks of another run left in it, if it was cut short."""
    known = _begun_with(first, root)
    key = key_for(known) if known else None
    with partial_store(out, "result", overwrite=overwrite, key=key, keeps=_goes_on) as store:
        if known:
            say_changed(store.other_keys, known, progress)
        yield store


def _begun_with(first: Plan, root: int | None) -> dict[str, str]:
    """What the states of ranks follow from; nothing if the search has no such states."""
    if first.reserved.exchange != SCHEDULER:
        return {}
    from ooc_graph import kernel_cache  # noqa: PLC0415 (imports numba)

    return {
        "kernel": first.request.kernel,
        "graph": first.graph.content_sha256,
        "source": str(root),
        "options": repr(first.request.given),
        "version": kernel_cache.whole_hash("traverse/*.py", "search/rank_states.py"),
    }


def _goes_on(error: BaseException) -> bool:
    """Whether a search that ended so may be continued."""
    # What cannot be read of a state is left out the next time.
    return isinstance(error, OSError) or may_end_well(error)


def _as_id(source: Any) -> int:
    try:
        return vertex_id(source)
    except TypeError:
        raise UsageError(f"source {source!r}: give one vertex id, an integer") from None


def _require_known(arrays: str, workplace: Workplace, out: Path | None) -> None:
    if arrays not in (NUMPY, CUPY, DASK):
        raise UsageError(f"arrays {arrays!r}: choose {NUMPY}, {CUPY} or {DASK}")
    if arrays == DASK and (workplace.client is None or out is not None):
        raise UsageError(
            "arrays='dask' leaves the answer on a Dask worker: give client=, and leave out= out"
        )


def _require_arrays(arrays: str, found: Plan, workplace: Workplace, out: Path | None) -> None:
    if arrays != CUPY:
        return
    if workplace.client is not None or out is not None:
        raise UsageError(
            "arrays='cupy' leaves the answer on this process's device: leave client= and out= out"
        )
    if found.device == CUDA and found.reserved.exchange == ONE:
        return
    where = found.why.removeprefix(f"{found.request.kernel} ")
    where = where or "on the CPU (device='cuda' says why)"
    if found.device == CUDA:
        where = f"by ranks, exchange {found.reserved.exchange}"
    raise UsageError(
        f"arrays='cupy' needs a search by one rank on a CUDA device, and this one is {where}"
    )


def search_by(
    found: Plan,
    root: int | None,
    workplace: Workplace,
    store: Partial | None = None,
    like: Stored | None = None,
) -> Written:
    """Search by a plan; into a partial store, if there is one, perhaps `like` another."""
    task = replace(found.task(root), like=like)
    if store is not None:
        task = replace(task, folder=str(store.folder), checkpoints=store.checkpoints)
    return ALGORITHMS[found.request.kernel].carry_out(found.graph, task, workplace)


def result_of(kernel: str, root: int | None, written: Written) -> Any:
    """The answer whose columns came back: what the kernel's algorithm gives."""
    kind: Any = ALGORITHMS[kernel].result
    facts = kind.facts(written.attributes, written.others)
    return kind(root, written.trace.elapsed_s, written.columns or {}, **facts)
