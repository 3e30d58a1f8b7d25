"""The command ``ooc-graph``: subcommands, options, exit codes, one line for an error."""

from ooc_graph.cli.entry import EXIT_TERMINATED, main, run
from ooc_graph.cli.group import command

__all__ = ["EXIT_TERMINATED", "command", "main", "run"]
