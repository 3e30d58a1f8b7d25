"""What is wrong with a job file, one line for each mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from ooc_graph.jobs import model
from ooc_graph.jobs.stage_tables import AnyStage
from ooc_graph.jobs.toml_text import has

KINDS = {"source": model.Source, "cluster": model.Cluster, "stage": AnyStage}
"""Tables that there are several kinds of."""
PLAIN: dict[str, type[BaseModel]] = {
    "build": model.Build,
    "resources": model.Resources,
    "retries": model.Retries,
}
"""Tables of one kind."""

_EXPECTED = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "string_type": "a string",
    "bool_type": "true or false",
    "float_type": "a number",
    "finite_number": "a number",
    "list_type": "a list",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dict_type": "a table",
    "literal_error": "{expected}",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "too_short": "a list of {min_length} or more",
    "too_long": "a list of {max_length} or fewer",
    "string_pattern_mismatch": "letters, digits, - and _",
    "string_too_long": "{max_length} characters or fewer",
}


@dataclass(frozen=True)
class Mistake:
    """What is wrong at a path of keys, and numbers in lists from 0."""

    path: tuple[str | int, ...]
    text: str


def nearest(name: str, names: Sequence[str]) -> str:
    """Advice for a wrong name: the one that was meant, or all."""
    close = get_close_matches(name, names, 1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(names) or 'none'}"


def mistakes_in(error: ValidationError, data: dict[str, Any]) -> list[Mistake]:
    """What pydantic found wrong with the values of a job file, each once."""
    found: dict[tuple[str | int, ...], list[Any]] = {}
    for one in error.errors():
        found.setdefault(_path_of(one, data), []).append(one)
    return [Mistake(path, text) for path in found for text in _texts(found[path], path, data)]


def _texts(errors: Sequence[Any], path: tuple[str | int, ...], data: dict[str, Any]) -> list[str]:
    """What is wrong at a path; what was expected of a value of several types stands together."""
    said = [_said(one, path, data) for one in errors]
    texts = [text for text in said if text is not None]
    valued = [one for one, text in zip(errors, said, strict=True) if text is None]
    # A value of one of its types may be wrong otherwise: the other types are not meant then.
    if valued and not texts:
        wanted = (_EXPECTED[one["type"]].format(**one.get("ctx", {})) for one in valued)
        found = _shown(valued[0]["input"])
        texts.append(f"expected {' or '.join(dict.fromkeys(wanted))}, found {found}")
    return texts


def _shown(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _path_of(error: Any, data: dict[str, Any]) -> tuple[str | int, ...]:
    """Path of an error in the file: without kinds of tables and of values."""
    found: tuple[str | int, ...] = ()
    steps = list(error["loc"])
    at_kind = {"source": 1, "cluster": 1, "stage": 2}.get(steps[0] if steps else "")
    if at_kind is not None and len(steps) > at_kind:
        del steps[at_kind]
    for step in steps:
        if not has(data, (*found, step)):
            break
        found = (*found, step)
    if error["type"] == "missing":
        return (*found, steps[-1])
    return (*found, "kind") if error["type"].startswith("union_tag") else found


def _said(error: Any, path: tuple[str | int, ...], data: dict[str, Any]) -> str | None:
    """What is wrong, unless it is a value of which it is said what was expected."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return f"unknown key; {nearest(str(path[-1]), list(_keys_at(path[:-1], data)))}"
    if kind == "union_tag_not_found":
        return f"is missing; there are {', '.join(_models_by_kind(str(path[0])))}"
    if kind == "union_tag_invalid":
        kinds = list(_models_by_kind(str(path[0])))
        return f"{_shown(context['tag'])} is unknown; {nearest(context['tag'], kinds)}"
    said: str = error["msg"]
    if path == ("stage",) and isinstance(error["input"], dict):
        said = "each stage begins with [[stage]], in two brackets"
    elif kind in _EXPECTED:
        return None
    return said.removeprefix("Value error, ")


def _models_by_kind(table: str) -> dict[str, type[BaseModel]]:
    models = get_args(KINDS[table])
    return {get_args(one.model_fields["kind"].annotation)[0]: one for one in models}


def _keys_at(path: tuple[str | int, ...], data: dict[str, Any]) -> Iterator[str]:
    """Keys that the table at a path may have."""
    if not path:
        yield from model.Job.model_fields
        return
    table = str(path[0])
    if table in KINDS:
        value: Any = data[table]
        value = value[path[1]] if table == "stage" else value
        yield from _models_by_kind(table)[value["kind"]].model_fields
        return
    yield from PLAIN[table].model_fields
