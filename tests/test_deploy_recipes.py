"""Recipes for schedulers: they are run where they can be, and else held against what reads them."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ooc_graph import errors
from ooc_graph.cli.jobs import run
from ooc_graph.runtime.signals import EXIT_TERMINATED
from tests.command_line import LIMIT_S, REPOSITORY, Ended
from tests.job_runs import small_job

DEPLOY = REPOSITORY / "deploy"
RETRYABLE = errors.RetryableError.exit_code


def shell(script: Path, *words: str, cwd: Path, command: str) -> Ended:
    """Run a script of a shell where ``ooc-graph`` is a command."""
    found = cwd / "bin" / "ooc-graph"
    found.parent.mkdir(exist_ok=True)
    found.write_text(f"#!/bin/sh\n{command}\n")
    found.chmod(0o755)
    path = f"{found.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", str(script), *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY)},
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def test_a_job_from_cron(tmp_path: Path) -> None:
    small_job(tmp_path)
    real = f'exec {sys.executable} -m ooc_graph "$@"'
    done = shell(DEPLOY / "cron/nightly.sh", "small.toml", cwd=tmp_path, command=real)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (tmp_path / "runs/small/export/10.csv").is_file()
    words = "small.toml", "--set", "stage.bfs.roots=[99]"
    done = shell(DEPLOY / "cron/nightly.sh", *words, cwd=tmp_path, command=real)
    assert (done.code, done.err) == (2, "")
    assert "vertex 99 is not in " in done.out
    log = (tmp_path / "small.log").read_text()
    assert log.count(": begins: small.toml") == 0
    assert re.search(r"Z begins: small\.toml\nbuild: begun\n", log)
    assert re.search(r"Z ended with exit code 2\n$", log)


@pytest.mark.parametrize("code", [0, RETRYABLE, EXIT_TERMINATED, 1, 2, 3])
def test_cron_mails_what_needs_attention(code: int, tmp_path: Path) -> None:
    command = f"echo something is said >&2; exit {code}"
    done = shell(DEPLOY / "cron/nightly.sh", "night.toml", cwd=tmp_path, command=command)
    assert done.code == code
    assert ("something is said" in done.out) == (code in (1, 2, 3))
    assert "something is said" in (tmp_path / "night.log").read_text()


def test_lines_of_the_crontab() -> None:
    lines = (DEPLOY / "cron/crontab").read_text().splitlines()
    entries = [line for line in lines if re.match(r"[\d*]", line)]
    assert len(entries) == 2
    for line in entries:
        minute, hour, *rest, command = line.split(None, 5)
        assert int(minute) < 60
        assert int(hour) < 24
        assert rest == ["*", "*", "*"]
        # cron makes a line feed of it.
        assert "%" not in command
        assert command.endswith("nightly.sh night.toml")


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units, with a program that is there and a user that there is."""
    for path in (DEPLOY / "systemd").glob("ooc-graph@.*"):
        text = path.read_text().replace("/usr/local/ooc-graph/bin/ooc-graph", "/bin/true")
        (tmp_path / path.name).write_text(text.replace("=graphs", "=root"))
    return tmp_path


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", ["ooc-graph@night.service", "ooc-graph@night.timer"])
def test_systemd_finds_nothing_wrong(name: str, units: Path) -> None:
    line = ["systemd-analyze", "verify", "--man=no", str(units / name)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    said = [one for one in done.stderr.splitlines() if "ooc-graph" in one]
    assert (done.returncode, said) == (0, []), done.stderr
    path = units / "ooc-graph@.service"
    path.write_text(path.read_text().replace("Type=exec", "Type=oneshot"))
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert "RestartForceExitStatus= set" in done.stderr


def test_systemd_runs_the_command_and_knows_its_exit_codes() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "systemd/ooc-graph@.service")
    service = unit["Service"]
    program, name, *words = service["ExecStart"].split()
    assert (Path(program).name, name) == ("ooc-graph", "run")
    assert run.make_context("run", words, parent=click.Context(click.Group())).params["quiet"]
    assert int(service["RestartForceExitStatus"]) == RETRYABLE
    assert int(service["SuccessExitStatus"]) == EXIT_TERMINATED
