"""Messages are built from templates: reproducible octets, the property of each template, exact sizes."""

from collections.abc import Callable
from datetime import UTC, datetime
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import paths
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.fixtures import fixture_names
from conformance.scenarios.messages import build_message, load_template

NAMES = fixture_names(paths.fixtures() / "messages")
USUAL: dict[str, Any] = {
    "message": "plain",
    "sequence": 1,
    "seed": 7,
    "sender": "alice@outside.test",
    "recipients": ("bob@corp.test", "dave@corp.test"),
    "date": datetime(2016, 2, 29, 12, 30, 5, tzinfo=UTC),
    "scenario": "a-scenario[n=1,to=a+b]",
}


def body_of(content: bytes) -> bytes:
    return content.partition(b"\r\n\r\n")[2]


def test_a_message_to_the_octet() -> None:
    assert build_message("m", **USUAL) == (
        b"From: <alice@outside.test>\r\n"
        b"To: <bob@corp.test>,\r\n <dave@corp.test>\r\n"
        b"Subject: m 1 of a-scenario[n=1,to=a+b]\r\n"
        b"Date: Mon, 29 Feb 2016 12:30:05 +0000\r\n"
        b"Message-ID: <m-1.a-scenario-n-1-to-a-b.7@harness.test>\r\n"
        b"MIME-Version: 1.0\r\n"
        b"\r\n"
        b"token 40ebba6961ce66de01539eb426c84032\r\n"
        b"Good morning,\r\n"
        b"\r\n"
        b"this is a plain message of the harness.\r\n"
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_template_gives_the_same_octets_twice(name: str) -> None:
    assert build_message("m", **USUAL | {"message": name}) == build_message("m", **USUAL | {"message": name})


def test_messages_of_another_name_number_seed_or_scenario_differ_in_message_id_and_body() -> None:
    changes: list[dict[str, Any]] = [{}, {"sequence": 2}, {"seed": 8}, {"scenario": "another"}]
    contents = [build_message("m", **USUAL | change) for change in changes] + [build_message("n", **USUAL)]
    assert len({message_from_bytes(content)["Message-ID"] for content in contents}) == len(contents)
    assert len({body_of(content) for content in contents}) == len(contents)


PROPERTIES: dict[str, Callable[[bytes], bool]] = {
    "plain": lambda content: content.isascii() and not message_from_bytes(content).is_multipart(),
    "empty-body": lambda content: body_of(content) == b"" and content.endswith(b"\r\n\r\n"),
    "no-message-id": lambda content: message_from_bytes(content)["Message-ID"] is None,
    "no-date": lambda content: message_from_bytes(content)["Date"] is None,
    "dots": lambda content: b"\r\n.\r\n..\r\n...\r\n" in content and content.endswith(b"\r\n.\r\n"),
    "eight-bit": lambda content: any(octet > 127 for octet in body_of(content)),
    "long-lines": lambda content: sorted(map(len, body_of(content).split(b"\r\n")))[-3:] == [998] * 3,
    "many-dots": lambda content: content.count(b"\r\n.") > 30_000,
    "long-header": lambda content: len(content.partition(b"\r\n\r\n")[0]) > 100_000,
    "multipart": lambda content: len(list(message_from_bytes(content).walk())) > 2,
}
"""Template of unusual content -> whether a message has what the template is named for, and the plain one none of it."""


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_template_of_unusual_content_has_the_property_it_is_named_for(name: str) -> None:
    has_property = PROPERTIES[name]
    assert has_property(build_message("m", **USUAL | {"message": name}))
    assert has_property(build_message("m", **USUAL | {"message": "plain"})) is (name == "plain")


@pytest.mark.parametrize("octets", [2000, 65535, 65536, 65537])
def test_a_whole_message_has_the_requested_size(octets: int) -> None:
    assert len(build_message("m", **USUAL | {"whole": octets})) == octets


FALSE_ENDS = {
    "lf-dot-lf": b"\n.\n",
    "lf-dot-crlf": b"\n.\r\n",
    "cr-dot-cr": b"\r.\r",
    "cr-dot-crlf": b"\r.\r\n",
    "cr-dot-lf": b"\r.\n",
    "crlf-dot-lf": b"\r\n.\n",
    "crlf-dot-cr": b"\r\n.\r",
}


@pytest.mark.parametrize(("name", "end"), FALSE_ENDS.items())
def test_smuggling_templates_hold_the_false_end_and_never_the_true_one(name: str, end: bytes) -> None:
    body = body_of(build_message("m", **USUAL | {"message": f"smuggling-{name}"}))
    assert b"The first message." + end + b"MAIL FROM:" in body
    assert b"\r\n.\r\n" not in body
    assert load_template(f"smuggling-{name}").raw is (end[:2] == b"\r\n")  # no other false end would be stuffed


HOPS = (95, 100, 400)


def test_every_template_is_in_one_of_the_tables_of_properties() -> None:
    tables = [*PROPERTIES, *(f"smuggling-{name}" for name in FALSE_ENDS), *(f"hops-{hops}" for hops in HOPS)]
    assert sorted(tables) == sorted(NAMES)


def test_header_fields_are_replaced_and_removed_case_insensitively() -> None:
    content = build_message("m", **USUAL, headers={"message-id": "<x@y>", "DATE": None, "X-New": "1"})
    assert b"\r\nmessage-id: <x@y>\r\n" in content
    assert content.lower().count(b"message-id:") == 1
    assert b"date:" not in content.lower()
    assert b"\r\nX-New: 1\r\n" in content


def test_a_header_field_may_be_folded() -> None:
    assert b"\r\nX: a\r\n b\r\n" in build_message("m", **USUAL, headers={"X": "a\r\n b"})


def test_a_header_field_that_is_not_ascii_is_written_in_utf8() -> None:
    assert "\r\nX: Grüße\r\n".encode() in build_message("m", **USUAL, headers={"X": "Grüße"})


def test_a_message_from_the_null_reverse_path_has_a_from_field() -> None:
    assert build_message("m", **USUAL | {"sender": ""}).startswith(b"From: <mailer-daemon@harness.test>\r\n")


@pytest.mark.parametrize(
    "headers",
    [
        *({"X": value} for value in ("a\r\nBcc: b", "a\nb", "a\n b", "a\rb", "a\r b", "a\0b")),
        *({name: "a"} for name in ("X:", "", "X\r\nBcc", "X: a\r\nBcc", "X\nBcc")),
    ],
)
def test_a_header_field_that_would_inject_another_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        build_message("m", **USUAL, headers=headers)


@given(more=st.integers(2, 5000))
def test_a_body_is_padded_to_the_octet(more: int) -> None:
    own = body_of(build_message("m", **USUAL))
    size = len(own) + more
    body = body_of(build_message("m", **USUAL, size=size))
    assert len(body) == size
    assert body.startswith(own), "nothing of it is lost"
    assert body.endswith(b"\r\n")
    assert max(map(len, body.split(b"\r\n"))) <= 78


def test_a_size_that_padding_cannot_reach_is_refused() -> None:
    own = len(body_of(build_message("m", **USUAL)))
    assert build_message("m", **USUAL, size=own) == build_message("m", **USUAL)
    for size in (own - 1, 5, own + 1):  # the shortest line is CRLF
        with pytest.raises(ValueError, match=f"a body of {own} octets cannot be padded to {size}"):
            build_message("m", **USUAL, size=size)


def test_an_invalid_template_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "messages").mkdir()
    (tmp_path / "messages" / "bad.yaml").write_text("title: two bodies\nbody: a\noctets: b\n")
    with pytest.raises(InvalidFile, match=r"bad\.yaml:1:1: a message has either `body` or `octets`"):
        load_template("bad", tmp_path)
    (tmp_path / "messages" / "misspelt.yaml").write_text("title: a misspelt key\nbody: a\nhosp: 3\n")
    with pytest.raises(InvalidFile, match=r"misspelt\.yaml:3:1: unknown key 'hosp' \(did you mean 'hops'\?\)"):
        load_template("misspelt", tmp_path)


@pytest.mark.parametrize("hops", HOPS)
def test_a_template_begins_with_as_many_received_fields_as_it_has_hops(hops: int) -> None:
    content = build_message(
        "m",
        message=f"hops-{hops}",
        sequence=1,
        seed=1,
        sender="a@x",
        recipients=["b@y"],
        date=datetime(2030, 1, 1, tzinfo=UTC),
    )
    header = content.partition(b"\r\n\r\n")[0]
    fields = [line for line in header.split(b"\r\n") if not line.startswith((b" ", b"\t"))]
    assert header.startswith(b"Received: from hop%d.test by hop%d.test; " % (hops, hops + 1))
    assert [field.startswith(b"Received: ") for field in fields[: hops + 1]] == [True] * hops + [False]
    assert header.count(b"Received: ") == hops
