"""What all tests have in common."""

from __future__ import annotations

import signal

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Take Ctrl-C as an interrupt, also in the background, where shells have it ignored.

    Tests send the signal to themselves and to commands, which inherit what is done with it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
