"""The directories of the data files (scenarios, fixtures, Allure's set-up), in a checkout or in an installed package.

A checkout has a pyproject.toml beside the package; an installed package has copies of the files in `_data`.
Where neither has a directory, the function that returns it raises FileNotFoundError.
"""

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

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


def local_path(text: str) -> Path:
    """Return the path that a text names: a path, or a URL of the scheme `file` as Spark writes it.

    Raises ValueError for a URL of another scheme or machine.
    """
    if not re.match(r"file:/|[A-Za-z][A-Za-z0-9+.-]*://", text):
        return Path(text)
    url = urlsplit(text)
    if url.scheme != "file" or url.netloc not in ("", "localhost"):
        raise ValueError(f"{text} is neither a path nor a file:// URL of this machine")
    return Path(unquote(url.path))
