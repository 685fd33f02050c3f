"""Settings of all tests: SIGINT works in them and their children, and hypothesis has no deadline."""

import signal

import pytest
from hypothesis import settings

from tests import markers

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure() -> None:
    """Restore the default handler of SIGINT, which a shell ignores in background jobs and their children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note whether the test is marked `timed`."""
    markers.timed = item.get_closest_marker("timed") is not None
