"""A job as assets of Dagster: one for each stage, and one for the graph."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ooc_graph.boundary import own_errors
from ooc_graph.errors import MissingLibraryError, OocGraphError, RetryableError
from ooc_graph.jobs.checks import BUILD
from ooc_graph.jobs.driver import Chosen, run_job
from ooc_graph.jobs.folder import SUMMARY
from ooc_graph.jobs.model import Job, StoreSource
from ooc_graph.jobs.reading import read_job
from ooc_graph.jobs.stage_tables import ReportStage
from ooc_graph.report.progress import Progress


def job_assets(
    job: str | Path,
    out: str | Path,
    settings: Sequence[str] = (),
    *,
    retries: int = 5,
    wait_s: float = 1800.0,
) -> Any:
    """Assets of a job, for `dagster.Definitions`.

    Their keys are the job's name and the stage's, such as ``night/bfs``. All are one operation that
    can be run in parts, so that no two write to the folder at once. Each that is selected is done
    as by ``ooc-graph run --only``: one that is done already is skipped, and still materialized.

    Parameters
    ----------
    job
        The job file. It is read again for each run; a stage that was added needs a reload.
    out
        Folder of the run.
    settings
        As of ``--set``: ``TABLE.KEY=VALUE``.
    retries, wait_s
        How often an error with exit code 75 is retried, and the seconds before each retry.

    Returns
    -------
    dagster.AssetsDefinition

    Raises
    ------
    InputError
        Mistakes in the job file.
    UsageError
        Dagster is not installed.
    """
    try:
        dagster: Any = import_module("dagster")
    except ModuleNotFoundError:
        raise MissingLibraryError("assets need Dagster: pip install 'ooc-graph[dagster]'") from None
    read, folder = read_job(Path(job), settings), Path(out)
    name = str(read.name)
    after = _after(read)
    specs = [
        dagster.AssetSpec([name, label], deps=[[name, one] for one in before])
        for label, before in after.items()
    ]

    def materialized(context: Any) -> Iterator[Any]:
        selected = {key.path[-1] for key in context.selected_asset_keys}
        for label in filter(selected.__contains__, after):
            try:
                with own_errors(), Progress(quiet=True) as progress:
                    chosen = Chosen(only=label)
                    again = read_job(Path(job), settings)
                    run_job(again, folder, progress, context.log.info, chosen=chosen)
            except RetryableError as error:
                context.log.warning(str(error))
                raise dagster.RetryRequested(retries, wait_s) from error
            except OocGraphError as error:
                raise dagster.Failure(str(error), allow_retries=False) from error
            figures = json.loads((folder / SUMMARY).read_text())[label]
            yield dagster.MaterializeResult(asset_key=[name, label], metadata=figures)

    define = dagster.multi_asset(name=f"{name.replace('-', '_')}_job", specs=specs, can_subset=True)
    # Dagster goes by the annotation, which it cannot have without being imported.
    materialized.__annotations__["context"] = dagster.AssetExecutionContext
    return define(materialized)


def _after(job: Job) -> Mapping[str, list[str]]:
    """Stages of a job in their order, the build among them, and which each follows from."""
    built = [] if isinstance(job.source, StoreSource) else [BUILD]
    found: dict[str, list[str]] = {one: [] for one in built}
    for stage in job.stage:
        of = getattr(stage, "of", None)
        before = list(found) if isinstance(stage, ReportStage) else built
        found[stage.label] = before if of is None else [of]
    return found
