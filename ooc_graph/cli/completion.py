"""The command ``completion``: scripts with which shells complete commands, options and paths."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ooc_graph.cli.groups import command


@command("""\
ooc-graph completion bash > ~/.local/share/bash-completion/completions/ooc-graph
ooc-graph completion zsh > ~/.zfunc/_ooc-graph
ooc-graph completion fish > ~/.config/fish/completions/ooc-graph.fish""")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes this command in a shell.

    It completes subcommands, options and paths. Save it to the file that the example names.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    # click reads this variable when the script calls the command.
    script = kind(ctx.find_root().command, {}, "ooc-graph", "_OOC_GRAPH_COMPLETE").source()
    click.echo(script, nl=False)
