"""Descriptions that were made to break the reader: each gives a short error with its place."""

import os
import re
from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.description import MAX_DESCRIPTION_OCTETS, Candidate, CandidateError, read_description
from conformance.candidates.lookup import find_candidate

MINE = """name: mine
kind: exec
claims: [relay]
argv: [/bin/true, "{config}"]
"""
PLACE = re.compile(r"[^\n]*mine\.yaml:\d+:\d+: .{1,300}")

BOMB = "options:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


def error_of(folder: Path, text: bytes) -> str:
    """Return the error, one line for each problem, of a description with these octets after its first lines."""
    path = folder / "mine.yaml"
    path.write_bytes(MINE.encode() + text)
    with pytest.raises(CandidateError) as caught:
        read_description(path)
    error = str(caught.value)
    assert all(PLACE.fullmatch(line) for line in error.splitlines()), error
    return error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("like: ../x\n", "mine.yaml:5:7: expected a text like"),
        ("like: x/../../y\n", "mine.yaml:5:7: expected a text like"),
        ("title: a\0b\n", "mine.yaml:5:1: not valid YAML: the character '\\x00' is not allowed"),
        ("title: 2001-99-99\nclams: x\n", "mine.yaml:6:1: unknown key 'clams'"),  # a date is read as text
        ("scale: !!int foo\n", "mine.yaml:5:8: 'foo' is not a valid !!int"),
        (
            "scale: !!python/object/apply:os.system [x]\n",
            "mine.yaml:5:8: the tag 'python/object/apply:os.system' is not used here",
        ),
        (f"scale: {'9' * 5000}\n", "mine.yaml:5:8: a number of more than 40 digits"),
        (f"scale: 0x{'f' * 5000}\n", "mine.yaml:5:8: a number of more than 40 digits"),
        (f"options: {'[' * 5000}{']' * 5000}\n", "mine.yaml:5:29: nested deeper than 20 levels"),
        (f"options: {'{a: ' * 5000}{'}' * 5000}\n", "mine.yaml:5:86: nested deeper than 20 levels"),
        ("options: &me {a: *me}\n", "mine.yaml:5:18: the alias 'me' is used inside its own value"),
        ("options: {a: *missing}\n", "mine.yaml:5:14: there is no anchor 'missing' before this alias"),
        (BOMB, "mine.yaml:10:17: more than 20000 values in one document"),
        ("options: {<<: x}\n", "mine.yaml:5:11: a merge key (<<) takes a mapping"),
        ("? [a, b]\n: c\n", "mine.yaml:5:3: a key must be a plain text"),
        ("options: {a: b, a: c}\n", "mine.yaml:5:17: the key 'a' stands here twice"),
        ("version-pattern: '('\n", "mine.yaml:5:18: '(' is not a regular expression"),
        ("scale: .inf\n", "mine.yaml:5:8: .inf is not a finite number"),
        ("scale: 'inf'\n", "mine.yaml:5:8: Input should be a finite number"),
        (f"{'x' * 1000}: 1\n", "mine.yaml:5:1: unknown key 'xxxxx"),
        ("claims: [relay]\n", "mine.yaml:5:1: the key 'claims' stands here twice"),
        (f"generations: [{'y' * 100_000}]\n", "mine.yaml:5:15: expected 'ex2010', 'ex2013' or 'ex2016', not 'yyyyy"),
        (
            f"dialect: {{name: x, commands: [{{operation: track-shadow, pattern: '{'(' * 9000}'}}], replies: []}}\n",
            f"mine.yaml:5:66: '{'(' * 60}' is not a regular expression",
        ),
    ],
)
def test_an_invalid_description_is_reported_with_its_place(tmp_path: Path, text: str, said: str):
    assert said in error_of(tmp_path, text.encode())


def test_octets_that_are_not_utf_8_are_reported_with_their_line(tmp_path: Path):
    assert "mine.yaml:6:1: not valid UTF-8: octet 77 is 0xff" in error_of(tmp_path, b"title: x\n\xff\nversion: 1\n")
    path = tmp_path / "with-a-mark.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\nb: 2\n\xff\nc: 3\n")
    with pytest.raises(CandidateError, match=r"with-a-mark\.yaml:3:1: not valid UTF-8: octet 13 is 0xff"):
        read_description(path)


def test_only_the_first_50_problems_are_listed(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text(MINE + "".join(f"key{n}: 1\n" for n in range(5000)), "utf-8")
    with pytest.raises(CandidateError) as caught:
        read_description(path)
    lines = str(caught.value).splitlines()
    keys = [re.search(r"unknown key '(\w+)'", line) for line in lines[:-1]]
    assert [found and found[1] for found in keys] == [f"key{n}" for n in range(50)]
    assert lines[-1] == "and 4950 more"


@pytest.mark.parametrize("what", ["fifo", "device", "directory", "loop", "huge"])
def test_a_description_that_is_not_a_regular_file_of_limited_size_is_refused(tmp_path: Path, what: str):
    base = tmp_path / "base.yaml"
    if what == "fifo":
        os.mkfifo(base)
    elif what == "directory":
        base.mkdir()
    elif what == "huge":
        whole = MINE.encode().ljust(MAX_DESCRIPTION_OCTETS, b"#")
        base.write_bytes(whole)
        assert read_description(base).name == "mine", "the limit itself is allowed"
        base.write_bytes(whole + b"#")
    else:
        base.symlink_to("/dev/zero" if what == "device" else base)
    with pytest.raises(CandidateError, match=r"base\.yaml:1:1: (cannot be read: |the file is too large)"):
        read_description(base)
    mine = tmp_path / "mine.yaml"
    mine.write_text(f"{MINE}like: base\n", "utf-8")
    with pytest.raises(CandidateError, match=r"base\.yaml:1:1: "):
        read_description(mine)
    with pytest.raises(CandidateError, match=r"base\.yaml: ?(1:1: |no such candidate)"):
        find_candidate(str(base), paths.fixtures() / "candidates")


FULL = """%YAML 1.2
%TAG !y! tag:yaml.org,2002:
---
name: mine
kind: exec
claims: !!seq [relay, dsn]
argv: [/bin/true, !!str 25, ! 26]
commands:
  <<: [{inspect: &words [cat, x]}, {inspect: [of a later mapping], flush: *words}]
flush-to-retry: !!bool true
stop-within: !!float 5
log-limit: !!int 2048
user: !!null
options: &one !!map {a: b, c: d, e: f}
environment: {a: own, <<: *one, c: !!str true}
next-hops: {}
generations: [ex2016]
"""


def test_aliases_merge_keys_tags_and_directives_are_supported(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text(FULL, "utf-8")
    candidate = read_description(path)
    expected = Candidate(
        name="mine",
        kind="exec",
        claims=("relay", "dsn"),
        argv=("/bin/true", "25", "26"),
        commands={"inspect": ("cat", "x"), "flush": ("cat", "x")},
        flush_to_retry=True,
        stop_within=5.0,
        log_limit=2048,
        options={"a": "b", "c": "d", "e": "f"},
        environment={"a": "own", "c": "true", "e": "f"},
        generations=("ex2016",),
    )
    assert candidate.model_dump() == expected.model_dump()
