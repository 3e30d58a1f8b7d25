"""What the files in the folder of a run may say: kinds of values, by name.

Whoever reads them takes what is here for granted. Keys that are not named are not looked at.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from ooc_graph.jobs.events import FAILED, STOPPED
from ooc_graph.jobs.fields import Name
from ooc_graph.jobs.toml_text import dotted


def _aware(time: str) -> str:
    if datetime.fromisoformat(time).tzinfo is None:
        raise ValueError("a time without its zone")
    return time


_Seconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0, lt=1 << 63)]
_Time = Annotated[str, AfterValidator(_aware)]


class _Recorded(BaseModel):
    model_config = ConfigDict(strict=True)


class _Noted(_Recorded):
    """What tells that a file is still the same."""

    stamp: list[int] | None = None
    sha256: str | None = None


class _File(_Noted):
    stamp: list[int] | None
    sha256: str | None


class _List(_Recorded):
    paths: list[str]
    stamps: dict[str, list[int] | None]


class _Files(_Recorded):
    hashes: dict[str, _File] = {}
    lists: dict[str, _List] = {}


class _Done(_Noted):
    """What is known of one unit that is done."""

    seconds: _Seconds | None
    elapsed_s: _Seconds | None = None
    components: _Count = 0
    iterations: _Count = 0
    edges: _Count = 0
    error_bound: Annotated[float, Field(ge=0, le=2)] = 0.0
    changed: _Count = 0
    new: _Count = 0
    gone: _Count = 0
    tier_bytes: dict[str, _Count] = {}


class _Input(_Recorded):
    name: str


class _Asked(_Recorded):
    after: dict[str, Any] = {}
    files: list[_Input] = []


class _Entry(_Recorded):
    """A step that was begun."""

    kind: Name
    fingerprint: str
    wanted: str
    asked: _Asked
    listed: dict[str, Any]
    units: dict[Name, _Done]
    begun: dict[Name, str | None]
    spent: dict[Name, _Seconds] = {}
    total: _Count
    done: bool


class _Manifest(_Recorded):
    job: Name
    files: _Files
    asked: dict[Name, str]
    steps: dict[Name, _Entry]


class _Event(_Recorded):
    """What happened, and of what: a ``run``, or a ``stage`` of it, or some ``units`` of this."""

    time: _Time
    event: str
    run: str = ""
    host: str | None = None
    pid: Annotated[int, Field(gt=0, lt=1 << 31)] | None = None
    stage: str = ""
    units: list[str] = []
    seconds: _Seconds | None = None
    error: str | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        is_begin = self.event == "begun" and "run" in self.model_fields_set
        has_error = self.event in (FAILED, STOPPED)
        if (
            (is_begin and (self.host is None or self.pid is None))
            or ((has_error or self.event == "done") and self.seconds is None)
            or (has_error and self.error is None)
        ):
            raise ValueError("not all of an event")
        return self


_EVENT, _MANIFEST = TypeAdapter(_Event), TypeAdapter(_Manifest)


def is_event(found: Any) -> bool:
    """Whether a line of JSON is an event, with all that belongs to it."""
    try:
        _EVENT.validate_python(found)
    except ValidationError:
        return False
    return True


def require_manifest(found: Any) -> None:
    """ValueError: it is no manifest of a run; says what is wrong in it."""
    try:
        _MANIFEST.validate_python(found)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{dotted(first['loc'])}: {first['msg']}") from None
