"""What ``--verbose`` shows: the package's log."""

from __future__ import annotations

import logging

import click


def explain(ctx: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    """Show what the package logs on stderr until the command ends, if ``--verbose`` is given."""
    if is_wanted:
        log, handler = logging.getLogger("ooc_graph"), Lines()
        log.addHandler(handler)
        log.setLevel(logging.DEBUG)
        ctx.call_on_close(lambda: log.removeHandler(handler))
        ctx.call_on_close(lambda: log.setLevel(logging.NOTSET))


class Lines(logging.Handler):
    """Log records as lines on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one."""
        click.echo(f"ooc-graph: {record.getMessage()}", err=True)
