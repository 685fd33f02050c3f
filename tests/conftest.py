"""What holds for all tests: they can be interrupted, and can interrupt what they start; none fails for being slow."""

import signal

import pytest
from hypothesis import settings

from tests import markers

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure() -> None:
    """Take SIGINT back: a shell that starts the tests in the background has it ignored, here and in every child."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note whether the test is marked `timed`."""
    markers.timed = item.get_closest_marker("timed") is not None
