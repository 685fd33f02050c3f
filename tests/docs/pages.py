"""The pages of the documentation, and the commands in them.

Commands that a test runs stand in blocks fenced as `console`, after `$ `; a long one continues after a backslash.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
_OTHER_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_PROGRAM = r"((?:conformance|python3?|pytest|tox|docker|npm) (?!=).*)$"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page; `text` goes to a shell."""

    page: str
    line: int
    text: str


def name_of(page: Path) -> str:
    """Return a page's path from the project's root."""
    return page.relative_to(ROOT).as_posix()


def commands(page: Path) -> list[Command]:
    """Return the commands of a page in their order."""
    text = page.read_text("utf-8")
    return [
        Command(name_of(page), text.count("\n", 0, block.start(1) + found.start()) + 1, found[1])
        for block in _BLOCK.finditer(text)
        for found in _COMMAND.finditer(block[1])
    ]


def commands_outside_of_blocks(page: Path) -> list[str]:
    """Return lines outside of `console` blocks that look like a command, which no test would run."""
    text = _BLOCK.sub("", page.read_text("utf-8"))
    plain = _OTHER_BLOCK.sub("", text)
    fenced = "\n".join(_OTHER_BLOCK.findall(text))
    return [
        *re.findall(rf"^(?: {{4}}|\t|\$ )\$? ?{_PROGRAM}", plain, re.MULTILINE),
        *re.findall(rf"^\s*\$? ?{_PROGRAM}", fenced, re.MULTILINE),
    ]
