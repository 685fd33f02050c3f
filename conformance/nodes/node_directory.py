"""A node's directory: its JSON document, the files rendered from its description, its data and its log.

A node of any kind but `python` has one. *Data* is the directory of the queue database. The *status file* is written by a node
of contract 2 (version 2 of docs/node-contract.md) to answer a reload. A *placeholder* such as `{config}` in the description's
commands and files stands for a value of this node.
"""

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
"""The name of the directory, in the node's own, that holds its queue database."""


def status_file_path(directory: Path) -> Path:
    """Return the path of the status file in a node's directory, which may be given as the harness or the node sees it."""
    return directory / "status" / "status.json"


class NodeDirectory:
    """Writes a node's files, and fills the placeholders of its commands.

    The node can write to its directory and put anything there: all access goes through `UntrustedDirectory`, but that of
    `_link_data`.

    `availability` says where the candidate's programs are. `seen_as` is the path at which the node sees the directory,
    if that is another; in a private root it is always `/node`. `python` is the interpreter that `{python}` stands for;
    `user` becomes the owner of everything written, where the harness is root. `shares` is the data directory of the server's
    first process, for a second one, whose own `data` stands for it; None for any other node. `configuration` is the document
    that was written last, {} before the first.
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
        shares: Path | None = None,
    ) -> None:
        self._user = user
        self._shares = shares
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
    def log_path(self) -> Path:
        """The path at which the log is found after `close`."""
        return self.directory / NAME

    @property
    def data(self) -> Path:
        """The directory of the queue database: `wipe` empties it, a power cut changes it."""
        return self.directory / DATA

    @property
    def status(self) -> Path:
        """The status file by which a node of contract 2 answers a reload; only the node writes its directory."""
        return status_file_path(self.directory)

    def write(self, configuration: NodeConfiguration, *, for_any_user: bool = False) -> None:
        """Write the JSON document and the description's files, and make the writable directories.

        A second process gets a link to the data of the first, except in a private root, which mounts them; its document names a
        status file of its own.
        With `for_any_user` any user of this machine may read the files, and write data and status. Raises NodeError when
        a template cannot be rendered, or when something that the node made is in the way.
        """
        if self._shares is not None and "status_file" in configuration:
            # the document has that of the server, which the first process writes
            configuration = {**configuration, "status_file": str(status_file_path(self._seen_as or self.directory))}
        self.configuration = configuration
        owner = self._owner()
        try:
            for folder in self.writable:
                if folder == self.data and self._shares is not None and self._availability.private_root is None:
                    self._link_data(self._shares)
                else:
                    self._inside.make_directory(folder.name, owner=owner, mode=0o777 if for_any_user else None)
            document = json.dumps(configuration, indent=1).encode()
            self._inside.write_file("node.json", document, owner=owner, readable=for_any_user)
            for name, template in self._candidate.files.items():
                text = render_file(name, template, configuration, self.placeholders, self._candidate.options)
                self._inside.write_file(name, text.encode(), owner=owner, readable=for_any_user)
            if owner is not None:
                self._inside.chown(owner)
            if for_any_user:
                self._inside.make_world_readable()
        except CandidateError as error:
            raise NodeError(self.name, "start", str(error), "correct the candidate's description") from error
        except (OSError, ValueError) as error:
            raise self._access_error("start", error) from error

    def _link_data(self, target: Path) -> None:
        """Make `data` a link to a directory, unless it is just that link from an earlier start. Raises OSError for anything else.

        No call here follows what the node may have put there, and the harness does not do so later.
        """
        try:
            self.data.symlink_to(target)
        except FileExistsError:
            if self.data.readlink() != target:
                raise

    @property
    def writable(self) -> tuple[Path, ...]:
        """The directories in the node's own that the node must be able to write: data, and with contract 2 that of the status."""
        return (self.data, *([self.status.parent] if self._candidate.contract == 2 else []))

    def _owner(self) -> Owner | None:
        """Return the owner that new files get: `user`, with the group unchanged (-1).

        None, for this process's own user, without a `user` and where this process is not root. Raises NodeError when `user` does not exist.
        """
        name = self._user
        if name is None or os.geteuid() != 0:
            return None
        try:
            return pwd.getpwnam(name).pw_uid, -1
        except KeyError as error:
            raise NodeError(
                self.name, "start", f"the user {name} does not exist", "correct the candidate's description"
            ) from error

    def _access_error(self, stage: str, error: Exception) -> NodeError:
        """Return the NodeError for a file of the directory that could not be read, written or removed."""
        return NodeError(self.name, stage, f"its directory: {error}", "the server may have put something else there")

    @property
    def placeholders(self) -> dict[str, str]:
        """The value of each placeholder that commands and files of the description may contain, without braces.

        Paths are as the node sees them, in a container or private root. Listeners and the next hop are those of the document written
        last, so they are missing before the first; the next hop is that of the route for all domains, and missing without one.
        """
        listeners = self.configuration.get("listeners", {})
        seen_as = self._seen_as or self.directory
        return {
            "python": self._python,
            "config": str(seen_as / "node.json"),
            "directory": str(seen_as),
            "data": str(seen_as / "data"),
            **({} if self._candidate.folder is None else {"here": str(self._candidate.folder)}),
            "name": self.name,
            "installed": str(self._availability.installed or ""),
            **{f"listen.{listener}": str(at["port"]) for listener, at in listeners.items()},
            **{f"listen.{listener}.host": str(at["host"]) for listener, at in listeners.items()},
            **self._next_hop(),
            **option_values(self._candidate.options),
        }

    def _next_hop(self) -> dict[str, str]:
        """Return the placeholders of the first next hop of the route for all domains; none when there is no such route."""
        routes = self.configuration.get("routes", ())
        hops = next((route["next_hops"] for route in routes if route["domain"] == "*" and route["next_hops"]), None)
        if hops is None:
            return {}
        host, port = hops[0]["dial"]
        return {"next_hop.host": str(host), "next_hop.port": str(port)}

    def fill(self, template: Sequence[str], arguments: Sequence[str] = ()) -> list[str]:
        """Return the argv of a command of the description, its placeholders filled in; `{1}` is the first argument."""
        return fill_argv(template, self.placeholders, arguments)

    def wipe(self) -> None:
        """Empty the data directory, which stays, since it may be a mount point; do nothing when it does not exist.

        For a second process that is the directory that it shares. Raises NodeError when something cannot be removed.
        """
        try:
            if self._shares is None:
                self._inside.empty_directory(self.data.name)
            else:
                _empty_directory(self._shares)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._access_error("wipe", error) from error

    def close(self) -> None:
        """Put the log at its path, which the node may have replaced, and release the directory; the node must be dead.

        Raises NodeError.
        """
        try:
            self.log.close()
        except OSError as error:
            raise self._access_error("close", error) from error
        finally:
            self._inside.close()


def _empty_directory(path: Path) -> None:
    """Delete everything in a directory of another node's directory. Raises OSError, also when something else has its name."""
    inside = UntrustedDirectory(path.parent)
    try:
        inside.empty_directory(path.name)
    finally:
        inside.close()
