"""JSON for people: the text of the standard library's."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ooc_graph.layout.json_text import indented

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
values = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@given(values)
def test_text_is_that_of_the_standard_library(value: object) -> None:
    assert indented(value) == json.dumps(value, indent=1, sort_keys=True)
