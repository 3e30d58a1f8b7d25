"""Values that several tables of a job file have."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

from ooc_graph.errors import OocGraphError, UsageError
from ooc_graph.remote.urls import LIBRARIES, OBJECT_STORES, is_url, lacking, scheme_of, shown


def _located(path: str, info: ValidationInfo) -> str:
    """A path as it is from anywhere; relative ones are from the folder of the job file."""
    if not path:
        raise ValueError("an empty word is no path")
    if is_url(path):
        raise ValueError(f"{shown(path)}: is a URL; only edges and graphs are read from such")
    return os.path.abspath(os.path.join((info.context or {}).get("folder", ""), path))  # noqa: PTH100, PTH118 - links stay


def _located_or_url(path: str, info: ValidationInfo) -> str:
    if not is_url(path):
        return _located(path, info)
    try:
        scheme_of(path)
    except UsageError as error:
        raise ValueError(str(error)) from None
    return path


def _target(url: str) -> str:
    """A URL that results may be written to."""
    scheme, _, path = url.rstrip("/").partition("://")
    # Libraries read names with nothing between two slashes otherwise than they write them.
    if scheme not in OBJECT_STORES or not path or "" in path.split("/"):
        known = ", ".join(f"{name}://" for name in OBJECT_STORES)
        said = shown(url) if is_url(url) else url
        raise ValueError(f"{said}: expected the URL of a folder in an object store ({known})")
    if find_spec(LIBRARIES[scheme]) is None:
        # Now, and not when all else is done.
        raise ValueError(f"{shown(url)}: {lacking(scheme)}")
    return url.rstrip("/")


def _located_three(paths: str, info: ValidationInfo) -> str:
    return ",".join(_located(path, info) for path in paths.split(","))


def _each_once(vertices: list[int]) -> list[int]:
    vertex, count = Counter(vertices).most_common(1)[0]
    if count > 1:
        raise ValueError(f"vertex {vertex} is given twice")
    return vertices


Location: TypeAlias = Annotated[str, AfterValidator(_located)]
LocationOrUrl: TypeAlias = Annotated[str, AfterValidator(_located_or_url)]
Target: TypeAlias = Annotated[str, AfterValidator(_target)]
Locations: TypeAlias = Annotated[str, AfterValidator(_located_three)]
"""Several in one word, with commas in between."""
Name: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=100)]
Vertex: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 63)]
Vertices: TypeAlias = Annotated[list[Vertex], Field(min_length=1), AfterValidator(_each_once)]
Size: TypeAlias = int | str


class Table(BaseModel):
    """A table of a job file: no other keys, and no value of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Given = TypeVar("Given", bound=Table)


def as_taken(table: Given, check: Callable[[], Any]) -> Given:
    """The table, if those who take its values raise no error of this package.

    Options of commands that an error names are keys in a job file.
    """
    try:
        check()
    except OocGraphError as error:
        said = _OPTION.sub(lambda option: option[1].replace("-", "_"), str(error))
        raise ValueError(said) from None
    return table


_OPTION = re.compile(r"--([a-z]+(?:-[a-z]+)*)")
