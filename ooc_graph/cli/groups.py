"""How a command's help looks: options under headings, and an example at the end.

click has no groups of options. The headings are one table, by the names of the parameters, so
that an option is described in the same group wherever it occurs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import click

_HEADINGS = {
    "Reading edges": "format_ directed weight columns delimiter header weight_type",
    "Graph store": "rows shards compress",
    "Benchmark": "scale edge_factor seeds searches kernels no_energy no_validation",
    "Search": (
        "kernel source sources_file sources targets cutoff reduce bins bin_width parents answer "
        "hops alpha personalization unweighted tol max_iter iterations"
    ),
    "Stages": "settings only first dry_run",
    "Where it runs": "device workers scheduler tls exchange",
    "Memory": "memory_limit device_memory host_memory method",
    "Output": ("out overwrite as_json prometheus serve schema example log_json quiet verbose"),
}
_HEADING_OF = {name: title for title, names in _HEADINGS.items() for name in names.split()}
_OTHERS = "Options"


class Command(click.Command):
    """A command with an example, whose help lists options under headings."""

    def __init__(self, *given: Any, example: str, **options: Any) -> None:
        super().__init__(*given, **options)
        self.example = example

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each heading that the command has."""
        rows = defaultdict[str, list[tuple[str, str]]](list)
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if row is not None:
                rows[_HEADING_OF.get(param.name or "", _OTHERS)].append(row)
        for heading in (*_HEADINGS, _OTHERS):
            if rows[heading]:
                with formatter.section(heading):
                    formatter.write_dl(rows[heading])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the example as it is typed, in lines that are not filled."""
        with formatter.section("Example"):
            for line in self.example.splitlines():
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def command(example: str) -> Callable[[Callable[..., Any]], Command]:
    """Decorator like `click.command`, of a command with an example."""
    return click.command(cls=Command, example=example)
