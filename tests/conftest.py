"""Settings of all tests: SIGINT works in them and their children, hypothesis has no deadline, and long tests can be drawn."""

import hashlib
import signal

import pytest
from hypothesis import settings

from tests import markers

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options by which a share of the long tests is drawn."""
    group = parser.getgroup("long tests")
    group.addoption(
        "--one-in", type=int, default=1, metavar="N", help="of the tests marked `long`, run one in N (default: 1, all)"
    )
    group.addoption(
        "--draw", default="0", metavar="SEED", help="which ones: the same seed draws the same tests (default: 0)"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests marked `long` that are not drawn; of a module that is marked as a whole, all are or none."""
    one_in, seed = config.getoption("--one-in"), config.getoption("--draw")
    if one_in == 1:
        return
    kept, left_out = [], []
    for item in items:
        module = item.getparent(pytest.Module)
        assert module is not None
        whole = module.get_closest_marker("long") is not None
        drawn = is_drawn(module.nodeid if whole else item.nodeid, seed, one_in)
        (kept if drawn or item.get_closest_marker("long") is None else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def is_drawn(name: str, seed: str, one_in: int) -> bool:
    """Return whether a test or module is among the one in `one_in` that `seed` draws; other names make no difference."""
    digest = hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % one_in == 0


def pytest_configure() -> None:
    """Restore the default handler of SIGINT, which a shell ignores in background jobs and their children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note whether the test is marked `timed`."""
    markers.timed = item.get_closest_marker("timed") is not None
