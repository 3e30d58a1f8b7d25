"""What all tests have in common."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, however slow the machine is: what passes once passes again.
# Others are tried with --hypothesis-profile random.
_UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("same", _UNHURRIED, derandomize=True)
settings.register_profile("random", _UNHURRIED)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    """Take Ctrl-C as an interrupt, also in the background, where shells have it ignored.

    Tests send the signal to themselves and to commands, which inherit what is done with it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
