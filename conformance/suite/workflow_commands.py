"""Keeps GitHub Actions from executing what a run prints of a server's text.

GitHub's runner takes a line of output that begins with `::`, or that has `##[` anywhere, for a command to itself: it sets
variables, hides text or adds annotations. Between `::stop-commands::TOKEN` and `::TOKEN::` it executes none. TOKEN is chosen
anew each time, so that no server can print it. `conformance run` stops them for all of its output but its own annotations.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

STOPPED = pytest.StashKey["StoppedCommands"]()


class StoppedCommands:
    """A pytest plugin that stops workflow commands from the session's start to its end.

    `_token` is what ends the stop, '' before the first.
    """

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal
        self._token = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Stop workflow commands before anything else of the session is printed."""
        self._stop()

    def pytest_unconfigure(self) -> None:
        """Resume at the end of the session, for what the step of the workflow prints afterwards; nothing if none was stopped."""
        if self._token:
            self._resume()

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Let the runner execute the commands that the block prints, and stop commands again; not where the block raises."""
        self._resume()
        yield
        self._stop()

    def _stop(self) -> None:
        """Print the command that stops all others, with a new token."""
        self._token = secrets.token_hex(16)
        self._print(f"::stop-commands::{self._token}")

    def _resume(self) -> None:
        """Print the command that ends the stop."""
        self._print(f"::{self._token}::")

    def _print(self, command: str) -> None:
        """Print a command on a line of its own, also where pytest has begun a line."""
        self._terminal.ensure_newline()
        self._terminal.write_line(command)


def stop_workflow_commands(config: pytest.Config, environment: Mapping[str, str]) -> None:
    """Register the plugin under GitHub Actions, in a session that prints; `environment` has the environment variables."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and environment.get("GITHUB_ACTIONS") == "true":
        config.stash[STOPPED] = StoppedCommands(terminal)
        config.pluginmanager.register(config.stash[STOPPED], "conformance-workflow-commands")
