"""The command ``config``: all settings, their values, and where these come from."""

from __future__ import annotations

import json

import click

from ooc_graph.cli.groups import command
from ooc_graph.cli.options import json_option
from ooc_graph.settings import SECTION, SETTINGS, origin_of, setting


@command("ooc-graph config")
@json_option
def config(as_json: bool) -> None:
    """List the settings and where their values come from.

    Settings are part of Dask's configuration: in its YAML files, such as
    ~/.config/dask/ooc-graph.yaml, under "ooc-graph:", or in variables such as
    DASK_OOC_GRAPH__MEMORY_LIMIT=4GiB. Options of a command come first.
    """
    rows = [
        {
            "setting": f"{SECTION}.{name}",
            "value": setting(name),
            "default": one.default,
            "from": origin_of(name),
            "meaning": one.said,
        }
        for name, one in SETTINGS.items()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    from ooc_graph.cli.tables import print_rows  # noqa: PLC0415 (imports rich)

    print_rows(tuple(rows[0]), ({key: _shown(value) for key, value in row.items()} for row in rows))


def _shown(value: object) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)
