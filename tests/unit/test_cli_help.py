"""The command's help, its examples, and how shells complete it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ooc_graph.cli import groups
from ooc_graph.cli.entry import command as group
from tests.command_line import call

CONTEXT = click.Context(group, info_name="ooc-graph")
COMMANDS = {name: group.get_command(CONTEXT, name) for name in group.list_commands(CONTEXT)}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_sentences_under_headings_and_an_example(name: str) -> None:
    found = COMMANDS[name]
    assert isinstance(found, groups.Command)
    text = found.get_help(click.Context(found, info_name=f"ooc-graph {name}", parent=None))
    for option in found.params:
        if isinstance(option, click.Option):
            said = option.help or ""
            assert said[0].isupper() or said.partition(":")[0] in ("auto", "edges"), option
            assert said.endswith("."), option
            assert option.name in groups._HEADING_OF, option
            assert text.count(f" {option.opts[-1]}") >= 1
    assert "\nExample:\n" in text
    assert not found.get_short_help_str(62).endswith("...")


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_can_be_parsed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = COMMANDS[name]
    assert isinstance(found, groups.Command)
    for line in found.example.splitlines():
        program, subcommand, *words = shlex.split(line.partition(" > ")[0])
        assert (program, subcommand) == ("ooc-graph", name)
        found.make_context(name, words)


def test_headings_name_parameters_that_there_are() -> None:
    known = {param.name for found in COMMANDS.values() if found for param in found.params}
    assert set(groups._HEADING_OF) <= known


def test_every_command_is_under_a_heading() -> None:
    text = group.get_help(CONTEXT)
    for name in COMMANDS:
        assert f"\n  {name} " in text


def completed(*words: str) -> list[str]:
    given = {
        "_OOC_GRAPH_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["ooc-graph", *words]),
        "COMP_CWORD": str(len(words)),
    }
    line = [sys.executable, "-m", "ooc_graph"]
    done = subprocess.run(line, env=os.environ | given, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_commands_options_and_paths_are_completed() -> None:
    assert completed("comp") == ["plain,completion", "plain,components"]
    assert "plain,build" in completed("biuld", "")
    assert completed("bfs", "--mem") == ["plain,--memory-limit"]
    assert completed("build", "fl") == ["file,fl"]
    assert completed("bfs", "g.zarr", "--device", "c") == ["plain,cpu", "plain,cuda"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_of_shells_call_the_command(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = call(monkeypatch, capsys, "completion", shell)
    assert done.code == 0
    assert f"_OOC_GRAPH_COMPLETE={shell}_complete" in done.out
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=done.out, text=True, check=True)


def test_a_missing_cupy_is_only_said_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ooc_graph.runtime import devices

    def without(_: str) -> str:
        raise devices.DeviceError(devices.WITHOUT_CUPY)

    monkeypatch.setattr(devices, "_cuda", lambda: without(""))
    monkeypatch.chdir(tmp_path)
    Path("e.txt").write_text("1 2\n2 3\n")
    assert call(monkeypatch, capsys, "build", "e.txt", "g.zarr", "--device", "cpu").code == 0
    for words, lines in (((), 0), (("-v",), 1), ((), 0)):
        bfs = ("bfs", "g.zarr", "--source", 1, "--out", "r.zarr", "--overwrite")
        done = call(monkeypatch, capsys, *bfs, *words)
        assert done.code == 0
        assert done.err.count(f"ooc-graph: {devices.WITHOUT_CUPY}\n") == lines
        assert done.err.count("CuPy") == lines
