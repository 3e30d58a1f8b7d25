"""The command ``doctor``: what the machine and the installation offer, and what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ooc_graph.cli.groups import command
from ooc_graph.cli.options import STORE, json_option
from ooc_graph.errors import OocGraphError, UsageError
from ooc_graph.settings import SECTION, SETTINGS, origin_of, setting

if TYPE_CHECKING:
    from ooc_graph.runtime.checkup import Check


@command("""\
ooc-graph doctor
ooc-graph doctor roads.zarr --json""")
@click.argument("graph", type=STORE, required=False)
@json_option
def doctor(graph: str | Path | None, as_json: bool) -> None:
    """Check this machine and installation, and say what to do.

    With GRAPH, also show how searches of it would be carried out here, and why not otherwise. The
    exit code is 1 only if something stops all work.
    """
    from ooc_graph.runtime.checkup import Check, checks  # noqa: PLC0415 - many modules
    from ooc_graph.runtime.configured import require_usable  # noqa: PLC0415

    found = list(checks())
    for name in SETTINGS:
        try:
            if (origin := origin_of(name)) != "default":
                require_usable(name)
                found.append(Check(f"setting {SECTION}.{name}", f"{setting(name)} ({origin})"))
        except UsageError as error:
            found.append(Check(f"setting {SECTION}.{name}", "", str(error), "mend the setting"))
    plans = [] if graph is None else list(_plans(graph))
    if as_json:
        facts = {"checks": [one._asdict() for one in found], "plans": plans}
        click.echo(json.dumps(facts, indent=1))
    else:
        _print(found, plans)
    for one in found:
        if one.stops:
            raise OocGraphError(f"{one.name}: {one.problem}; {one.advice}")


def _plans(graph: str | Path) -> Iterator[dict[str, str]]:
    """For each search, the strategies that are considered: refused ones, and the one chosen."""
    from ooc_graph.model.request import Request  # noqa: PLC0415
    from ooc_graph.runtime.workplace import workplace_for  # noqa: PLC0415
    from ooc_graph.search.considered import considered  # noqa: PLC0415
    from ooc_graph.shards.load import Graph  # noqa: PLC0415

    opened, resources = Graph.open(graph), workplace_for(None, None).resources()
    can_sssp = opened.weighted and not opened.has_negative_weights
    for kernel in ("bfs", "sssp", "components"):
        if kernel == "sssp" and not can_sssp:
            continue
        for name, why in considered(opened, Request(kernel), resources):
            yield {"search": kernel, "strategy": name, "refused": why}


def _print(found: list[Check], plans: list[dict[str, str]]) -> None:
    from ooc_graph.cli.tables import print_rows  # noqa: PLC0415 (imports rich)

    rows = [
        {
            "": "!" if one.problem else "",
            "check": one.name,
            "found": one.found,
            "problem": f"{one.problem}; {one.advice}" if one.problem else "",
        }
        for one in found
    ]
    print_rows(("", "check", "found", "problem"), rows)
    if plans:
        click.echo()
        chosen = [{**one, "refused": one["refused"] or "chosen"} for one in plans]
        print_rows(("search", "strategy", "refused"), chosen)
    problems = sum(bool(one.problem) for one in found)
    click.echo()
    click.echo(f"{problems} problem{'' if problems == 1 else 's'}" if problems else "no problems")
