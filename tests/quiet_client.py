"""A client of a cluster whose workers say nothing."""

from __future__ import annotations

from typing import Any


class QuietClient:
    """As much of a Dask client as a search asks for that is not carried out."""

    status = "running"

    def subscribe_topic(self, *_: Any) -> None:
        """Hear of a topic."""

    def unsubscribe_topic(self, *_: Any) -> None:
        """Hear of it no more."""
