"""Commands for jobs: ``run`` does what a job file says, the others look at runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from ooc_graph.cli.groups import command
from ooc_graph.cli.options import PATH, json_option, quiet_option
from ooc_graph.errors import CorruptStoreError, NotAStoreError, UsageError, one_line

RUNS = Path("runs")
"""Where runs go unless it is said where."""
PAGE = "comparison.html"
"""The page about several runs; ``report.html`` is what a stage writes about one."""


@command("""\
ooc-graph run --example graph500 > night.toml
ooc-graph run night.toml""")
@click.argument("job", type=PATH, metavar="JOB.toml", required=False)
@click.option(
    "--set", "settings", multiple=True, metavar="TABLE.KEY=VALUE", help="Replace or add a value."
)
@click.option("--only", metavar="STAGE", help="Run only this stage.")
@click.option("--from", "first", metavar="STAGE", help="Run this stage and those after it.")
@click.option("--dry-run", is_flag=True, help="Print what would be done; write nothing.")
@click.option("--out", type=PATH, metavar="RUN", help="Folder of the run [runs/NAME].")
@click.option("--schema", is_flag=True, help="Print the JSON schema of job files.")
@click.option("--example", metavar="NAME", help="Print an example: graph500, road_distances, ...")
@quiet_option
@click.option(
    "--log-json", is_flag=True, help="Print events as JSON lines on stderr, in place of progress."
)
def run(
    job: Path | None,
    settings: tuple[str, ...],
    only: str | None,
    first: str | None,
    dry_run: bool,
    out: Path | None,
    schema: bool,
    example: str | None,
    quiet: bool,
    log_json: bool,
) -> None:
    """Run the stages of a job file that are not done yet."""
    if schema or example is not None:
        _show(schema, example)
        return
    from ooc_graph.jobs.driver import Chosen, run_job  # noqa: PLC0415
    from ooc_graph.jobs.reading import read_job  # noqa: PLC0415
    from ooc_graph.report.progress import Progress  # noqa: PLC0415

    if job is None:
        raise UsageError("give a job file; --example graph500 prints one")
    if only is not None and first is not None:
        raise UsageError("--only and --from: give one of them")
    read = read_job(job, settings)
    folder, chosen = out or RUNS / str(read.name), Chosen(only, first)
    if dry_run:
        from ooc_graph.cli.tables import print_rows  # noqa: PLC0415 (imports rich)
        from ooc_graph.jobs.dry import COLUMNS, outlook  # noqa: PLC0415

        print_rows(COLUMNS, outlook(read, folder, chosen))
        return
    from ooc_graph.jobs.events import logged_as_json  # noqa: PLC0415

    with logged_as_json() if log_json else Progress(quiet) as progress:
        run_job(read, folder, progress, click.echo, chosen=chosen)


def _show(schema: bool, example: str | None) -> None:
    from ooc_graph.jobs.shipped import example_of, schema_text  # noqa: PLC0415

    click.echo(schema_text() if schema else example_of(str(example)), nl=False)


@command("ooc-graph status runs/night")
@click.argument("folder", type=PATH, metavar="RUN")
@json_option
@click.option(
    "--serve",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve a page at 127.0.0.1:PORT until Ctrl-C; 0: any free port.",
)
def status(folder: Path, as_json: bool, serve: int | None) -> None:
    """Print how far a run is: what is done, running and left."""
    from ooc_graph.cli.tables import print_rows  # noqa: PLC0415
    from ooc_graph.jobs.status import damaged, status_of  # noqa: PLC0415

    if as_json and serve is not None:
        raise UsageError("--json and --serve: give one of them")
    try:
        found = status_of(folder)
    except CorruptStoreError as error:
        if as_json:
            click.echo(json.dumps(damaged(folder, error), indent=1))
        raise
    if serve is not None:
        from ooc_graph.report.needed import require_figures  # noqa: PLC0415

        require_figures("the page")
        from ooc_graph.jobs.live import serve_status  # noqa: PLC0415

        serve_status(folder, serve, click.echo)
        return
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    click.echo(one_line(_headline(found)))
    columns = ("step", "state", "done", "rate", "running")
    print_rows(columns, (_step_row(step) for step in found["steps"]))


@command("ooc-graph runs")
@click.argument("folder", type=PATH, default=RUNS)
@json_option
@click.option(
    "--prometheus",
    type=PATH,
    metavar="FILE.prom",
    help="Write a file for node_exporter's textfile collector instead of a list.",
)
def runs(folder: Path, as_json: bool, prometheus: Path | None) -> None:
    """List the runs in a folder [runs] and how far they are."""
    from ooc_graph.cli.tables import print_rows  # noqa: PLC0415
    from ooc_graph.jobs.status import age_of, statuses_in  # noqa: PLC0415

    if as_json and prometheus is not None:
        raise UsageError("--json and --prometheus: give one of them")
    if not folder.is_dir():
        raise NotAStoreError(f"{folder}: no such folder")
    found = statuses_in(folder)
    if prometheus is not None:
        from ooc_graph.jobs.metrics import write_metrics  # noqa: PLC0415

        write_metrics(prometheus, found)
        return
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    now = datetime.now(UTC)
    rows = (
        {
            "run": Path(one["folder"]).name,
            "job": one["job"],
            "state": one["state"],
            "steps": _ratio(sum(s["state"] == "done" for s in one["steps"]), len(one["steps"])),
            "last event": f"{age_of(one['last'], now)} ago" if "last" in one else "",
            "where": f"{one['host']}, process {one['pid']}" if "host" in one else "",
        }
        for one in found
    )
    print_rows(("run", "job", "state", "steps", "last event", "where"), rows)


@command("ooc-graph report runs/monday runs/tuesday --out week.html")
@click.argument("folders", type=PATH, metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--out", type=PATH, metavar="FILE", help=f"File of the page [{PAGE} in the last RUN]."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; write no page.")
def report(folders: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Write a page that compares runs of a job."""
    from ooc_graph.jobs.compared import compared  # noqa: PLC0415
    from ooc_graph.jobs.status import DAMAGED  # noqa: PLC0415

    if as_json and out is not None:
        raise UsageError("--json and --out: give one of them")
    found = compared(folders)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=1))
        return
    from ooc_graph.cli.tables import print_rows  # noqa: PLC0415
    from ooc_graph.report.needed import require_figures  # noqa: PLC0415
    from ooc_graph.report.run_facts import duration, speed  # noqa: PLC0415

    require_figures("the page")
    from ooc_graph.report.runs_page import write_runs_page  # noqa: PLC0415

    whole = [at for at, one in zip(folders, found, strict=True) if one.state != DAMAGED]
    last, path = found[-1], out or whole[-1] / PAGE
    write_runs_page(path, folders[-1], found)
    for damaged in (one for one in found[:-1] if one.state == DAMAGED):
        click.echo(damaged.error)
    rows = (
        {
            "stage": stage.name,
            "state": stage.state,
            "time": duration(stage.seconds),
            "speed": speed(stage),
            "result": stage.result,
            "since the run before": "; ".join(
                one.text for one in last.changes if one.stage == stage.name
            ),
        }
        for stage in last.stages
    )
    click.echo(one_line(f"{folders[-1]}: {last.state}{f': {last.error}' if last.error else ''}"))
    columns = ("stage", "state", "time", "speed", "result", "since the run before")
    print_rows(columns, rows)
    for change in last.changes:
        if change.stage not in last.by_name:
            click.echo(one_line(f"{change.stage or 'job'}: {change.text}"))
    click.echo(f"report: {path}")


def _ratio(done: int, total: object) -> str:
    return f"{done} of {total}"


def _headline(found: dict[str, Any]) -> str:
    """A run in one line."""
    from ooc_graph.jobs.status import age_of  # noqa: PLC0415

    said = f"{found['folder']}: {found['state']}"
    if "host" in found:
        age = age_of(found["last"], datetime.now(UTC))
        said += f"; process {found['pid']} on {found['host']}, last event {age} ago"
    return said + (f": {found['error']}" if "error" in found else "")


def _step_row(step: dict[str, Any]) -> dict[str, str]:
    from ooc_graph.jobs.status import age_of  # noqa: PLC0415

    running = ", ".join(step.get("running", [])[:4])
    if len(step.get("running", [])) > 4:
        running += f" and {len(step['running']) - 4} more"
    if "since" in step:
        running += f" since {age_of(step['since'], datetime.now(UTC))}"
    rate = f"{step['units_per_s']:.3g}/s" if "units_per_s" in step else ""
    if "left_s" in step:
        rate += f", {step['left_s']:.0f} s left"
    return {
        "step": step["step"],
        "state": step["state"],
        "done": _ratio(step["done"], step["total"]) if "total" in step else "",
        "rate": rate,
        "running": running.strip(),
    }
