"""The command that ranks vertices: ``pagerank``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ooc_graph.cli import options as shared
from ooc_graph.cli.figures import show
from ooc_graph.cli.groups import command
from ooc_graph.layout.outputs import refuse_output
from ooc_graph.model.defaults import ALPHA, MAX_ITER, TOL
from ooc_graph.model.request import SCHEDULER, Request
from ooc_graph.report.graph500 import by_part, in_seconds
from ooc_graph.shards.load import Graph


@command("ooc-graph pagerank follows.zarr --out ranks.zarr")
@click.argument("graph", type=shared.STORE)
@shared.result_option
@click.option(
    "--alpha",
    type=float,
    default=ALPHA,
    show_default=True,
    help="Damping factor: share of a score that goes along out-arcs.",
)
@click.option(
    "--personalization",
    type=shared.PATH,
    metavar="FILE",
    help="Jump to the vertices of this file only, one a line, each as likely [all vertices].",
)
@click.option("--unweighted", is_flag=True, help="Count every arc alike, whatever its weight.")
@click.option(
    "--tol",
    type=float,
    default=TOL,
    show_default=True,
    help="Stop when all scores together change by less than this times the number of vertices.",
)
@click.option(
    "--max-iter", type=int, default=MAX_ITER, show_default=True, help="Most iterations until then."
)
@click.option(
    "--iterations", type=int, metavar="N", help="Exactly N instead, as LDBC Graphalytics counts."
)
@shared.exchange_option
@shared.json_option
@shared.common_options
def pagerank(
    graph: str | Path,
    out: Path,
    alpha: float,
    personalization: Path | None,
    unweighted: bool,
    tol: float,
    max_iter: int,
    iterations: int | None,
    exchange: str,
    as_json: bool,
    **common: Any,
) -> None:
    """Find the PageRank of every vertex, as networkx defines it.

    As there, the default tolerance is so large for a graph of many vertices that few iterations are
    done. Give a smaller one, such as 1e-6 divided by the number of vertices, or --iterations.
    """
    from ooc_graph.api.pagerank import kernel_of, problem_of  # noqa: PLC0415
    from ooc_graph.api.vertices import ids_in  # noqa: PLC0415 - many modules
    from ooc_graph.search.single import search  # noqa: PLC0415

    opened = Graph.open(graph)
    kernel = kernel_of(opened, weight=not unweighted)
    jump = None if personalization is None else dict.fromkeys(ids_in(personalization).tolist(), 1.0)
    problem = problem_of(opened, alpha, jump, None, tol, max_iter, iterations)
    Request(kernel, exchange).require_together(common["device"])
    refuse_output(out, "result", common["overwrite"])
    with shared.searching(common, for_cuda=False, needs_workers=exchange == SCHEDULER) as options:
        options |= {"out": out, "exchange": exchange, "given": problem}
        result: Any = search(opened, kernel, **options)
    done = result.columns.attributes["iterations"]
    said = (
        f"pagerank: {opened.vertices:,} vertices in {done} iterations "
        f"in {in_seconds(result.elapsed_s)} ({by_part(result.seconds)}); {out}"
    )
    show(result, out, said, {"iterations": done}, as_json=as_json)
