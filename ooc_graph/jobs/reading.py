"""Read a job file, with values that the command line sets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ooc_graph.errors import InputError, JobError, UsageError, one_line
from ooc_graph.jobs.checks import mistakes_of
from ooc_graph.jobs.mistakes import Mistake, mistakes_in, nearest
from ooc_graph.jobs.model import Job
from ooc_graph.jobs.toml_text import Statement, dotted, has, line_of, statements_of, tables_of
from ooc_graph.remote.urls import has_secret, is_url, shown

Key = tuple[str | int, ...]


def read_job(path: Path, settings: Sequence[str] = ()) -> Job:
    """The job of a file; ``settings`` are words ``TABLE.KEY=VALUE`` that replace what it says.

    Its name is that of the file unless it has one.

    Raises
    ------
    InputError
        The file cannot be read, or is not TOML.
    JobError
        A line for each mistake: file and line, or the setting; the key; what was expected.
    UsageError
        A setting that is none.
    """
    text = _text_of(path)
    try:
        data = tables_of(text)
    except ValueError as error:
        said, line = _syntax(str(error), text)
        raise InputError(f"is not TOML: {said}", path=path, line=line) from None
    given = {key: _public(word) for key, word in (_set(data, w) for w in settings)}
    data.setdefault("name", re.sub(r"[^A-Za-z0-9_-]", _plain, path.stem))
    try:
        return _checked(data, path, text, given)
    except RecursionError:
        raise InputError("has tables nested too deeply", path=path) from None


def _plain(character: re.Match[str]) -> str:
    """What a character of a file's name is in that of its job: other words stay other names."""
    return "_" if character[0].isascii() else f"_{ord(character[0]):x}"


def _checked(data: dict[str, Any], path: Path, text: str, given: dict[Key, str]) -> Job:
    """The job that the tables of a file, and the settings that were ``given``, make."""
    mistakes = list(_secrets_in(data))
    try:
        job = Job.model_validate(data, context={"folder": path.absolute().parent})
        mistakes += mistakes_of(job)
    except ValidationError as error:
        mistakes += mistakes_in(error, data)
    if mistakes:
        statements = statements_of(text)
        lines = sorted(_said(one, path, statements, given) for one in mistakes)
        raise JobError("\n".join(one_line(line) for _, line in lines))
    return job


_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]*@")
"""Of a URL, with the user before it."""


def _public(setting: str) -> str:
    """A setting as messages repeat it."""
    key, sign, value = setting.partition("=")
    url = value.strip("\"'")
    return f"{key}{sign}{shown(url)}" if is_url(url) else _PASSWORD.sub("://...@", setting)


def _secrets_in(value: Any, *key: str | int) -> Iterator[Mistake]:
    """URLs with secrets: the folder of a run has a copy of its job, which others may read."""
    text = (
        "a URL in a job has no user, password or query, as jobs are written to the folder of a "
        "run; credentials come from the environment"
    )
    if is_url(value) and has_secret(value):
        yield Mistake(key, f"{shown(value)}: {text}")
    elif isinstance(value, str) and _PASSWORD.search(value):
        yield Mistake(key, text)
    elif isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _secrets_in(inner, *key, name)


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise InputError(f"cannot be read ({why})", path=path) from None


_AT = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def _syntax(said: str, text: str) -> tuple[str, int]:
    """What is wrong with a text, and in which line: Python has that in its words."""
    found = _AT.search(said)
    last = len(text.splitlines()) or 1
    return _AT.sub("", said), int(found[1]) if found and found[1] else last


def _said(
    mistake: Mistake, path: Path, statements: Sequence[Statement], given: dict[Key, str]
) -> tuple[int, str]:
    """A mistake with its line, or the setting that it is in, which comes first."""
    key = mistake.path
    said = f"{dotted(key)}: {mistake.text}"
    for end in range(len(key), 0, -1):
        if key[:end] in given:
            return 0, f"--set {given[key[:end]]}: {said}"
        if line := line_of(statements, key[:end]):
            return line, f"{path}:{line}: {said}"
        for setting, word in given.items():
            if setting[:end] == key[:end]:
                return 0, f"--set {word}: {said}"
    return 0, f"{path}: {said}"


def _set(data: dict[str, Any], word: str) -> tuple[Key, str]:
    """Set one value in the tables; its key, and the word."""
    name, equals, value = word.partition("=")
    steps = name.strip().split(".")
    if not equals or not all(steps):
        raise UsageError(f"--set {word}: give TABLE.KEY=VALUE, such as source.scale=20")
    table: Any = data
    key: list[str | int] = []
    for number, step in enumerate(steps):
        chosen: str | int = step
        if isinstance(table, list):
            chosen = _stage_called(step, table, word)
        elif not isinstance(table, dict):
            raise UsageError(f"--set {word}: {dotted(key)} is a value, not a table")
        key.append(chosen)
        if number < len(steps) - 1:
            if not has(table, [chosen]):
                table[chosen] = {}
            table = table[chosen]
    if isinstance(table, list):
        raise UsageError(f"--set {word}: {dotted(key)} is a table; name a key of it")
    table[key[-1]] = _parsed(value)
    return tuple(key), word


def _stage_called(name: str, tables: list[Any], word: str) -> int:
    """Number of the table of a list that has a name, or a kind and no name."""
    names = [str(one.get("name", one.get("kind"))) for one in tables if isinstance(one, dict)]
    if len(names) < len(tables) or name not in names:
        raise UsageError(f"--set {word}: no stage is called {name}; {nearest(name, names)}")
    return names.index(name)


def _parsed(value: str) -> Any:
    """A value as TOML has it; a word that is none is a string."""
    try:
        found = tables_of(f"value = {value}")
    except ValueError:
        return value
    return found["value"] if len(found) == 1 else value
