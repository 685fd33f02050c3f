"""A node's directory: its JSON document, the files rendered from its description, its data and its log."""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.candidates.description import Candidate, CandidateError
from conformance.candidates.placeholders import option_values
from conformance.candidates.presence import Presence
from conformance.candidates.templates import fill_argv, render_file
from conformance.nodes.contract import NodeConfiguration, NodeError
from conformance.nodes.disks import trees
from conformance.nodes.last_words import last_words
from conformance.nodes.private_root import NODE

_TAIL = 32 * 1024
"""Octets of a log's end in which it is looked for why the node ended."""


def status_file_in(directory: Path) -> Path:
    """Return where a node writes its status, given its directory as here or as it sees it itself."""
    return directory / "status" / "status.json"


class Workshop:
    """Writes what a node is told, and fills in the words of its commands.

    `seen_as` is what the node itself sees its directory as, where that is another path; `python` is its interpreter.
    """

    def __init__(
        self,
        name: str,
        candidate: Candidate,
        directory: Path,
        presence: Presence,
        *,
        seen_as: Path | None = None,
        python: str = sys.executable,
    ) -> None:
        self._python = python
        self._seen_as = NODE if presence.private_root is not None else seen_as
        self._given_away = candidate.user if candidate.kind == "exec" else None
        self.name = name
        self.directory = directory
        self.configuration: NodeConfiguration = {}
        self._candidate = candidate
        self._presence = presence
        self._log_begins = 0
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def log(self) -> Path:
        """What the node wrote to stdout and stderr."""
        return self.directory / "node.log"

    @property
    def data(self) -> Path:
        """The queue database, whatever it is: what `wipe` destroys and a power cut strikes."""
        return self.directory / "data"

    @property
    def status(self) -> Path:
        """The file in which a node of contract 2 answers a reload, in a folder that only the node writes."""
        return status_file_in(self.directory)

    def write(self, configuration: NodeConfiguration) -> None:
        """Write the document and the files. Raises NodeError when a template cannot be rendered."""
        self.configuration = configuration
        self.data.mkdir(exist_ok=True)
        if self._candidate.contract == 2:
            self.status.parent.mkdir(exist_ok=True)
        (self.directory / "node.json").write_text(json.dumps(configuration, indent=1), encoding="utf-8")
        for name, template in self._candidate.files.items():
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                text = render_file(name, template, configuration, self.values, self._candidate.options)
                path.write_text(text, encoding="utf-8")
            except CandidateError as error:
                raise NodeError(self.name, "start", str(error), "mend the candidate's description") from error
        if self._given_away is not None:
            for path in (self.directory, *self.directory.rglob("*")):
                shutil.chown(path, self._given_away)

    @property
    def values(self) -> dict[str, str]:
        """What the placeholders stand for."""
        doors = self.configuration.get("listeners", {})
        seen_as = self._seen_as or self.directory
        return {
            "python": self._python,
            "config": str(seen_as / "node.json"),
            "directory": str(seen_as),
            "data": str(seen_as / "data"),
            **({} if self._candidate.folder is None else {"here": str(self._candidate.folder)}),
            "name": self.name,
            "installed": str(self._presence.installed or ""),
            **{f"listen.{door}": str(at["port"]) for door, at in doors.items()},
            **{f"listen.{door}.host": str(at["host"]) for door, at in doors.items()},
            **self._next_hop(),
            **option_values(self._candidate.options),
        }

    def _next_hop(self) -> dict[str, str]:
        """Return where mail for everybody goes; nothing when there is no such route."""
        routes = self.configuration.get("routes", ())
        found = next((route["next_hops"] for route in routes if route["domain"] == "*" and route["next_hops"]), None)
        if found is None:
            return {}
        host, port = found[0]["dial"]
        return {"next_hop.host": str(host), "next_hop.port": str(port)}

    def filled(self, template: Sequence[str], arguments: Sequence[str] = ()) -> list[str]:
        """Return a command of the description, ready to be run."""
        return fill_argv(template, self.values, arguments)

    def wipe(self) -> None:
        """Delete the data directory's content; the directory itself may be a mount."""
        trees.empty(self.data)

    def begin_log(self) -> None:
        """Note that the node starts: what the log says so far is of an earlier life."""
        self._log_begins = self.log.stat().st_size if self.log.exists() else 0

    def last_words(self) -> str:
        """Return the exception that the log ends with since the node was started, or its last line."""
        with self.log.open("rb") as log:
            log.seek(max(self._log_begins, self.log.stat().st_size - _TAIL))
            return last_words(log.read().decode("utf-8", "replace"))
