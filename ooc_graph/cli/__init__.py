"""The command ``ooc-graph``: subcommands, options, exit codes, one line for an error."""

from ooc_graph.cli.entry import main, run
from ooc_graph.cli.group import command
from ooc_graph.session.stopping import EXIT_TERMINATED

__all__ = ["EXIT_TERMINATED", "command", "main", "run"]
