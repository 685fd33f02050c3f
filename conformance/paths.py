"""The directories of the data files (scenarios, fixtures, Allure's set-up), in a checkout or in an installed package."""

import os
from pathlib import Path

_PACKAGE = Path(__file__).parent


def _data_directory(folder: str) -> Path:
    """Return a data directory by its path in the checkout: that of the checkout itself, else that of the installed package.

    Raises FileNotFoundError when neither exists.
    """
    checkout, installed = _PACKAGE.parent, _PACKAGE / "_data"
    if (checkout / "pyproject.toml").is_file() and (checkout / folder).is_dir():
        return checkout / folder
    if (installed / folder).is_dir():
        return installed / folder
    raise FileNotFoundError(f"the directory {folder!r} of the harness is not there; is the installation whole?")


def fixtures() -> Path:
    """Return the directory of topologies, messages and candidates' descriptions."""
    return _data_directory("fixtures")


def corpus() -> Path:
    """Return the directory of the scenarios that come with the harness."""
    return _data_directory("scenarios")


def allure() -> Path:
    """Return the directory of the pinned npm package of Allure, which builds a run's site."""
    return _data_directory("reports/allure")


def cache() -> Path:
    """Return the directory for files that can be made again (XDG base directories); it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smtp-conformance"


def reference() -> Path:
    """Return the directory of the reference server's source files."""
    return Path(__file__).parent / "reference"
