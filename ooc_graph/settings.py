"""Defaults that a user or a machine sets: what Dask's configuration says under ``ooc-graph``.

They are read here alone, at each call, for what the call leaves open. Dask is imported for them
only if one of its files or variables has a setting of ours: that takes a fifth of a second.
"""

from __future__ import annotations

import logging
import os
import re
import site
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ooc_graph.errors import UsageError


class Setting(NamedTuple):
    """What a setting is if nobody sets it, and what it says."""

    default: Any
    said: str


SECTION = "ooc-graph"
SETTINGS = {
    "device": Setting("auto", "Device of calls that choose none: auto (a GPU if present) or cpu."),
    "memory-limit": Setting(
        None, "Host memory of a call; none: 80 % of what is free, or what the workers bring."
    ),
    "device-memory": Setting(None, "Memory of each GPU that a call may use; none: nearly all."),
    "host-memory": Setting(None, "Pinned host memory of a call for a GPU; 0: none is pinned."),
    "progress": Setting(True, "Whether the command shows progress on stderr."),
    "cache-folder": Setting(
        None, "Folder for copies of files at URLs; none: remote in the user's cache folder."
    ),
    "answer-timeout": Setting("10s", "Longest wait for an answer of a worker or the scheduler."),
    "patience": Setting("60s", "Longest wait for a worker that can work, or for the scheduler."),
}
"""All settings by name."""

_VARIABLE = "DASK_OOC_GRAPH__"
_MENTIONED = re.compile(rb"ooc[-_]graph")
_ENDINGS = ".json", ".yaml", ".yml"
# Unknown settings that a warning was given of.
_warned: set[str] = set()


def setting(name: str) -> Any:
    """What is configured under a name, or the default."""
    default = SETTINGS[name].default
    if "dask" not in sys.modules and not _is_mentioned():
        return default
    from dask import config  # noqa: PLC0415

    _warn_of_unknown(config.get(SECTION, None) or {})
    return config.get(f"{SECTION}.{name}", default)


def origin_of(name: str) -> str:
    """Where a setting comes from: a variable, a file, this process, or ``default``."""
    for variable in os.environ:
        if variable.upper().startswith(_VARIABLE) and _plain(variable[len(_VARIABLE) :]) == name:
            return variable
    from dask import config  # noqa: PLC0415

    files = [
        str(path)
        for path, found in config.collect_yaml(config.paths, return_paths=True)
        if name in _of(found)
    ]
    if files:
        return files[-1]
    return "default" if setting(name) == SETTINGS[name].default else "dask.config.set"


def _of(found: Any) -> set[str]:
    """Names of our settings in the content of a file."""
    sections = [found.get(name) for name in (SECTION, "ooc_graph")] if found else []
    return {_plain(name) for section in sections for name in section or ()}


def _plain(name: object) -> str:
    """A setting's name as it is here: Dask takes hyphens for underscores."""
    return str(name).lower().replace("_", "-")


def _warn_of_unknown(section: Any) -> None:
    """Say once of each setting that there is none of its name."""
    if not isinstance(section, Mapping):
        raise UsageError(f"{SECTION} is {section!r} in Dask's configuration: give settings by name")
    for name in {_plain(key) for key in section} - SETTINGS.keys() - _warned:
        _warned.add(name)
        close = get_close_matches(name, SETTINGS, 1)
        advice = f"did you mean {SECTION}.{close[0]}?" if close else "it is ignored"
        logging.getLogger("ooc_graph").warning(
            "%s.%s in Dask's configuration is no setting: %s `ooc-graph config` lists all",
            SECTION,
            name,
            advice if close else f"{advice};",
        )


@cache
def _is_mentioned() -> bool:
    """Whether Dask would find a setting of ours when it is imported."""
    if "DASK_INTERNAL_INHERIT_CONFIG" in os.environ:
        return True
    if any(name.upper().startswith(_VARIABLE) for name in os.environ):
        return True
    files = (file for folder in folders() for file in _files(folder))
    return any(_MENTIONED.search(file.read_bytes()) for file in files if os.access(file, os.R_OK))


def folders() -> list[Path]:
    """Folders, or files, that Dask reads: its ``dask.config.paths``, without importing it."""
    found = [
        Path(os.getenv("DASK_ROOT_CONFIG", "/etc/dask")),
        *(Path(prefix, "etc", "dask") for prefix in (sys.prefix, *site.PREFIXES)),
        Path("~", ".config", "dask").expanduser(),
    ]
    found += [Path(os.environ["DASK_CONFIG"])] if "DASK_CONFIG" in os.environ else []
    return list(reversed(dict.fromkeys(reversed(found))))


def _files(path: Path) -> Iterator[Path]:
    with suppress(OSError):
        inside = path.iterdir() if path.is_dir() else iter([path])
        yield from (one for one in inside if one.is_file() and one.suffix.lower() in _ENDINGS)


def answer_timeout_s() -> float:
    """Longest wait for the answer to one question, in seconds."""
    return _seconds("answer-timeout", 0.1)


def patience_s() -> float:
    """Longest wait for a worker that can do the work, in seconds."""
    return _seconds("patience", 0.0)


def _seconds(name: str, least: float) -> float:
    from dask.utils import parse_timedelta  # noqa: PLC0415

    # Dask's parser raises errors of many kinds.
    with suppress(Exception):
        if least <= (seconds := float(parse_timedelta(setting(name)))) < float("inf"):
            return seconds
    raise refusal(name, f"give a time from {least:g} s on, such as {SETTINGS[name].default!r}")


def shows_progress() -> bool:
    """Whether the command shows progress unless it is told otherwise."""
    if not isinstance(found := setting("progress"), bool):
        raise refusal("progress", "give true or false")
    return found


def refusal(name: str, advice: str) -> UsageError:
    """The error of a setting that cannot be what it is."""
    return UsageError(f"{SECTION}.{name} is {setting(name)!r} in Dask's configuration: {advice}")
