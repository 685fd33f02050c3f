"""A node's directory: its JSON document, the files rendered from its description, its data and its log."""

import json
import os
import pwd
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.candidates.availability import Availability
from conformance.candidates.description import Candidate, CandidateError
from conformance.candidates.placeholders import fill_argv, option_values, render_file
from conformance.nodes.contract import NodeConfiguration, NodeError
from conformance.nodes.node_log import NAME, NodeLog
from conformance.nodes.private_root import NODE
from conformance.untrusted.directory import Owner, UntrustedDirectory

DATA = "data"
"""The directory of a node's queue database, in its own."""


def status_file_path(directory: Path) -> Path:
    """Return where a node writes its status, given its directory as here or as it sees it itself."""
    return directory / "status" / "status.json"


class NodeDirectory:
    """Writes what a node is told, and fills in the words of its commands.

    `seen_as` is what the node itself sees its directory as, where that is another path; `python` is its interpreter;
    `user` is whom all of it is given to, where the harness is root.
    """

    def __init__(
        self,
        name: str,
        candidate: Candidate,
        directory: Path,
        availability: Availability,
        *,
        seen_as: Path | None = None,
        python: str = sys.executable,
        user: str | None = None,
    ) -> None:
        self._user = user
        self._python = python
        self._seen_as = NODE if availability.private_root is not None else seen_as
        self.name = name
        self.directory = directory
        self.configuration: NodeConfiguration = {}
        self._candidate = candidate
        self._availability = availability
        self._inside = UntrustedDirectory(directory)
        self.log = NodeLog(self._inside)
        """What the node writes to stdout and stderr."""

    @property
    def log_file(self) -> Path:
        """Where the log is found once the node has ended."""
        return self.directory / NAME

    @property
    def data(self) -> Path:
        """The queue database, whatever it is: what `wipe` destroys and a power cut strikes."""
        return self.directory / DATA

    @property
    def status(self) -> Path:
        """The file in which a node of contract 2 answers a reload, in a folder that only the node writes."""
        return status_file_path(self.directory)

    def write(self, configuration: NodeConfiguration, *, for_any_user: bool = False) -> None:
        """Write the document and the files.

        With `for_any_user` any user may read them, and write data and status. Raises NodeError when a template cannot be rendered,
        or when the node has put something in the way.
        """
        self.configuration = configuration
        owner = self._owner()
        try:
            for folder in self.writable:
                self._inside.make_directory(folder.name, owner=owner, mode=0o777 if for_any_user else None)
            document = json.dumps(configuration, indent=1).encode()
            self._inside.write_file("node.json", document, owner=owner, readable=for_any_user)
            for name, template in self._candidate.files.items():
                text = render_file(name, template, configuration, self.values, self._candidate.options)
                self._inside.write_file(name, text.encode(), owner=owner, readable=for_any_user)
            if owner is not None:
                self._inside.chown(owner)
            if for_any_user:
                self._inside.make_world_readable()
        except CandidateError as error:
            raise NodeError(self.name, "start", str(error), "mend the candidate's description") from error
        except (OSError, ValueError) as error:
            raise self._in_the_way("start", error) from error

    @property
    def writable(self) -> tuple[Path, ...]:
        """The directories below its own that the node must be able to write."""
        return (self.data, *([self.status.parent] if self._candidate.contract == 2 else []))

    def _owner(self) -> Owner | None:
        """Return who gets what is made; None is whoever we are. Raises NodeError."""
        name = self._user
        if name is None or os.geteuid() != 0:
            return None
        try:
            return pwd.getpwnam(name).pw_uid, -1
        except KeyError as error:
            raise NodeError(
                self.name, "start", f"there is no user {name}", "mend the candidate's description"
            ) from error

    def _in_the_way(self, stage: str, error: Exception) -> NodeError:
        return NodeError(self.name, stage, f"its directory: {error}", "the server may have put something else there")

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
            "installed": str(self._availability.installed or ""),
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
        """Delete the data directory's content; the directory itself may be a mount. Raises NodeError."""
        try:
            self._inside.empty_directory(self.data.name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._in_the_way("wipe", error) from error

    def close(self) -> None:
        """Let go of the directory; the node must be dead. Raises NodeError when its log cannot be put where it belongs."""
        try:
            self.log.close()
        except OSError as error:
            raise self._in_the_way("close", error) from error
        finally:
            self._inside.close()
