"""The command ``ooc-graph`` and all of its subcommands."""

from __future__ import annotations

import click

from ooc_graph import __version__
from ooc_graph.cli.graphs import build, graph500
from ooc_graph.cli.pairs import apsp
from ooc_graph.cli.searches import bfs, components, sssp
from ooc_graph.cli.stores import export, info, plan, verify


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ooc-graph")
def command() -> None:
    """Shortest paths and connected components on graphs bigger than memory.

    Build a graph store once, open it in a second, search it.
    """


for _subcommand in (graph500, build, bfs, sssp, apsp, components, info, plan, verify, export):
    command.add_command(_subcommand)
