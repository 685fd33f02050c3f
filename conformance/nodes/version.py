"""Which version of a server it is, asked of the server itself, for the report."""

import os
import re
import sys
import tempfile
from pathlib import Path

from conformance.candidates.description import Candidate
from conformance.nodes import private_root
from conformance.nodes.commands import run_command
from conformance.nodes.node_directory import NodeDirectory

_OWN_NAMESPACES = ("unshare", "-m", "-p", "-f", sys.executable, "-S", "-E")


_LONGEST = 200
"""Characters of a version that are kept."""


async def version_by_command(candidate: Candidate) -> str:
    """Return the version that the description's `version` command tells, or the one that the description says.

    Raises NodeError when the command fails.
    """
    template = candidate.commands.get("version")
    availability = candidate.check_availability()
    if template is None or availability.missing:
        return candidate.version
    with tempfile.TemporaryDirectory(prefix="conformance-version-") as directory:
        shop = NodeDirectory(candidate.name, candidate, Path(directory), availability)
        shop.close()
        argv = shop.filled(template)
        if availability.private_root is not None:
            words = [
                *_OWN_NAMESPACES,
                private_root.__file__,
                str(availability.private_root),
                directory,
                candidate.name,
                "--",
            ]
            argv = [*words, *argv]
        environment = {**os.environ, **candidate.environment}
        said = await run_command(
            candidate.name, "version", argv, within=candidate.command_within, environment=environment
        )
    found = re.search(candidate.version_pattern, said)
    told = next(filter(None, (*found.groups()[:1], found[0])), "") if found else ""
    return told[:_LONGEST] or candidate.version
