"""What GitHub's runner executes of a step's output."""

import re
from collections.abc import Iterator

_COMMAND = re.compile(r"\s*::([^:\s]+)(?:\s[^:]*(?::(?!:)[^:]*)*)?::(.*)")
_OLD_COMMAND = re.compile(r"##\[([^\]\s]+)[^\]]*\]")


def executed_commands(output: str) -> Iterator[str]:
    """Yield the name of each workflow command that the runner executes, without stop-commands; check that none stay stopped."""
    stopped_until = ""
    for line in output.splitlines():
        command = _COMMAND.match(line)
        if stopped_until:
            if command and command[1] == stopped_until:
                stopped_until = ""
        elif command and command[1] == "stop-commands":
            stopped_until = command[2]
        elif command:
            yield command[1]
        elif old := _OLD_COMMAND.search(line):
            yield old[1]
    assert not stopped_until
