"""What the hostile tests share."""

from __future__ import annotations

import pytest

from tests.hostile.works import Works


@pytest.fixture(scope="session")
def works(tmp_path_factory: pytest.TempPathFactory) -> Works:
    """Calls and their right answers, found once."""
    return Works(tmp_path_factory.mktemp("works"))
