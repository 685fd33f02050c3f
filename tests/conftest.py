"""What holds for all tests: they can be interrupted, and can interrupt what they start; none fails for being slow."""

import signal

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure() -> None:
    """Take SIGINT back: a shell that starts the tests in the background has it ignored, here and in every child."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
