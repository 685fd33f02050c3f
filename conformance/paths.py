"""Where the files that are no code lie: the corpus of scenarios, the fixtures, Allure's set-up, in a checkout or installed."""

import os
from pathlib import Path

_PACKAGE = Path(__file__).parent


def data(folder: str) -> Path:
    """Return the directory of a name, `scenarios`: of the checkout when there is one, else of the installed package.

    Raises FileNotFoundError when neither is there.
    """
    checkout, installed = _PACKAGE.parent, _PACKAGE / "_data"
    if (checkout / "pyproject.toml").is_file() and (checkout / folder).is_dir():
        return checkout / folder
    if (installed / folder).is_dir():
        return installed / folder
    raise FileNotFoundError(f"the directory {folder!r} of the harness is not there; is the installation whole?")


def fixtures() -> Path:
    """Topologies, messages, candidates."""
    return data("fixtures")


def corpus() -> Path:
    """The scenarios that come with the harness."""
    return data("scenarios")


def allure() -> Path:
    """The pinned set-up of the Allure that builds a run's site."""
    return data("reports/allure")


def cache() -> Path:
    """Where this program may keep what it can make again (XDG base directories); it need not be there yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smtp-conformance"
