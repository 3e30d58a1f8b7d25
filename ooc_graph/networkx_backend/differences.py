"""Tests of networkx' own suite that ask for more than its documentation does, each with why."""

from __future__ import annotations

from typing import Any

_ANOTHER_PATH = "of several shortest paths another one is found"

DIFFERENCES: dict[str, str] = {}
"""Why a test fails by design, by the end of its name: ``file.py::Class::test``."""


def mark_differences(items: Any) -> None:
    """Have pytest expect the failure of these tests."""
    import pytest  # noqa: PLC0415 - networkx' tests call this alone

    for item in items:
        for test, reason in DIFFERENCES.items():
            if item.nodeid.endswith(test):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
