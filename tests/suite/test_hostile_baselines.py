"""Baselines made to break the reader: each is refused with short errors that name the place."""

import os
import re
from pathlib import Path

import pytest

from conformance.scenarios.yaml_nodes import MAX_NODES
from conformance.suite.baseline import BaselineError, read_baselines

ENTRY = "candidate: mine\nknown:\n  - scenario: x\n    check: expect.mailbox\n    requirement: RL-ACK-01\n"
PLACE = re.compile(r"[^\n]*mine\.yaml:\d+:\d+: .{1,300}")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("    coment: as is known\n", "mine.yaml:6:5: unknown key 'coment' (did you mean 'comment'?)"),
        ("    comment: short\n", "mine.yaml:6:14: expected a text of at least 10 characters"),
        ("    comment: !!int foo\n", "mine.yaml:6:14: 'foo' is not a valid !!int"),
        (f"    comment: {'9' * 5000}\n", "mine.yaml:6:14: a number of more than 40 digits"),
        ("    comment: a\0b\n", "mine.yaml:6:1: not valid YAML: the character '\\x00' is not allowed"),
        (f"    comment: {'[' * 5000}\n", "nested deeper than 20 levels"),
        ("    comment: &c [*c]\n", "the alias 'c' is used inside its own value"),
        (f"    comment: [{'k' * 829_000}]\n", "expected a text, not a list"),
        (f"    axes: {'k' * 829_000}\n", "expected a mapping, not 'kkk"),
        ("    comment: [\n", "not valid YAML"),
    ],
)
def test_an_invalid_baseline_is_refused_with_short_errors_that_name_the_place(tmp_path: Path, text: str, error: str):
    path = tmp_path / "mine.yaml"
    path.write_text(ENTRY + text, "utf-8")
    with pytest.raises(BaselineError) as caught:
        read_baselines([str(path)])
    assert error in str(caught.value)
    assert all(PLACE.fullmatch(line) for line in str(caught.value).splitlines())


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "loop", "octets"])
def test_an_entry_of_the_folder_that_is_not_a_text_file_is_refused(tmp_path: Path, kind: str):
    path = tmp_path / "mine.yaml"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "octets":
        path.write_bytes(b"candidate: \xff\n")
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)
    with pytest.raises(BaselineError, match=r"mine\.yaml:1:1: (cannot be read|not valid UTF-8): "):
        read_baselines([str(tmp_path)])


def test_a_baseline_may_list_more_cells_than_a_scenario_has_values(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    more = MAX_NODES + 1
    path.write_text("candidate: mine\ncells:\n" + "".join(f"  - scenario[n={n}]\n" for n in range(more)), "utf-8")
    assert len(read_baselines([str(path)])["mine"].cells or ()) == more
