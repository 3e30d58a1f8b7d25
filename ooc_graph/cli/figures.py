"""What a command prints of a search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ooc_graph.answers.result import Result


def show(result: Result, out: Path, said: str, found: dict[str, Any], *, as_json: bool) -> None:
    """Print what a search found: a line of text, or one JSON object with all figures."""
    if not as_json:
        click.echo(said)
        return
    figures = {
        "kernel": result.kernel,
        **found,
        "elapsed_s": result.elapsed_s,
        "info": result.info.to_dict(),
        "answer": str(out),
    }
    click.echo(json.dumps(figures))
