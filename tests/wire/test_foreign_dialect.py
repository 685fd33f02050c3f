"""A conversation is recorded with the same verbs, operations and keywords in every dialect."""

import asyncio
import re
from dataclasses import asdict
from typing import Any

import pytest

from conformance.history.dialects import PROFILE_1, Dialect
from conformance.history.events import Command, FaultFired, Reply
from conformance.history.recorder import Recorder
from conformance.scenarios.steps.breaking import Fault
from conformance.wire.links import Links
from tests.wire.scripted_server import scripted_server

FRESH = {
    "XSHADOWREQUEST": "MIRROR", "XSHADOW": "TRACKED", "XQUERYDISCARD": "LEFT-OVER", "XQDISCARD": "SETTLED",
    "database": "journal", "discard": "drop", "end": "remaining",
}  # fmt: skip
SWAPPED = {
    "XSHADOWREQUEST": "XQUERYDISCARD", "XSHADOW": "XQDISCARD", "XQUERYDISCARD": "XSHADOWREQUEST", "XQDISCARD": "XSHADOW",
    "database": "end", "discard": "database", "end": "discard",
}  # fmt: skip
"""Each name is that of another verb or word of the wire profile."""

SAID = [
    ("", "220 hub2 ESMTP"),
    ("EHLO hub1", "250-hub2\r\n250-XSHADOW\r\n250-PIPELINING\r\n250 XSHADOWREQUEST"),
    ("LHLO hub1", "250-hub2\r\n250 XSHADOW"),
    ("XSHADOW hub1", "501 5.5.4 two arguments"),
    ("XSHADOW hub1 db1-1", "250 2.0.0 hub2 db2-1"),
    ("XSHADOWREQUEST hub1 db1-1", "250 2.0.0 hub2 db2-1"),
    ("XSHADOWREQUEST hub1", "501 5.5.4 two arguments"),
    ("MAIL FROM:<a@b> SIZE=9 XSHADOW=db1-1-4", "250 2.1.0 ok"),
    ("RCPT TO:<c@d>", "250 2.1.5 ok"),
    ("DATA", "354 go on"),
    (".", "250 2.6.0 <1@x> Queued mail for redundancy"),
    ("XQDISCARD hub1 2", "250-2.0.0 database db2-1\r\n250-2.0.0 discard db1-1-2\r\n250 2.0.0 end 1"),
    ("XQUERYDISCARD hub1 2", "250-2.0.0 database db2-1\r\n250 2.0.0 end 0"),
    ("XQDISCARD hub1", "501 5.5.4 two arguments"),
    ("XQUERYDISCARD", "501 5.5.4 two arguments"),
    ("QUIT", "221 2.0.0 bye"),
]
VERBS = ("XSHADOWREQUEST", "XSHADOW", "XQDISCARD", "XQUERYDISCARD")
OPERATIONS = ("request-shadow", "track-shadow", "shadow-message", "query-discard")


def rename(text: str, names: dict[str, str]) -> str:
    return re.sub(rf"\b({'|'.join(names)})\b", lambda found: names[found[0]], text) if names else text


def dialect(names: dict[str, str]) -> Dialect:
    """Return the built-in dialect under other names."""
    whole = {
        **dict(zip(VERBS, VERBS, strict=True)),
        "database": "database",
        "discard": "discard",
        "end": "end",
        **names,
    }
    pair = r"(?P<server>\S+) (?P<database>\S+)$"
    ask = r"(?P<server>\S+) (?P<limit>\d+)$"
    return Dialect.model_validate(
        {
            "name": "made-up",
            "keywords": {whole[verb].lower(): verb for verb in ("XSHADOWREQUEST", "XSHADOW")},
            "verbs": {whole[verb].lower(): verb for verb in VERBS},
            "commands": [
                {"operation": "request-shadow", "pattern": rf"^{whole['XSHADOWREQUEST']} {pair}"},
                {"operation": "track-shadow", "pattern": rf"^{whole['XSHADOW']} {pair}"},
                {"operation": "shadow-message", "pattern": rf"^MAIL FROM:.* {whole['XSHADOW']}=(?P<shadow_id>\S+)"},
                {"operation": "query-discard", "pattern": rf"^{whole['XQDISCARD']} {ask}"},
                {"operation": "query-discard", "pattern": rf"^{whole['XQUERYDISCARD']} {ask}"},
            ],
            "replies": [
                {"operation": "request-shadow", "to": "request-shadow", "patterns": [rf"^2\.0\.0 {pair}"]},
                {"operation": "track-shadow", "to": "track-shadow", "patterns": [rf"^2\.0\.0 {pair}"]},
                {
                    "operation": "discard-list",
                    "to": "query-discard",
                    "patterns": [
                        rf"^2\.0\.0 {whole['database']} (?P<database>\S+)$",
                        rf"^2\.0\.0 {whole['discard']} (?P<shadow_id>\S+)$",
                        rf"^2\.0\.0 {whole['end']} (?P<left>\d+)$",
                    ],
                },
            ],
        }
    )


class _Still:
    def elapsed(self) -> float:
        return 0.0


def record_events(
    names: dict[str, str],
    spoken: Dialect,
    at: str | None = None,
    when: str = "after",
    *,
    server_names: dict[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Hold the conversation under these names over a link of a dialect; return its events without their lines and times.

    A fault at `at`, if given, replaces the replies (`when` after) or splits the commands (before). The server replies
    under names of its own if `server_names` are given.
    """
    reply_names = names if server_names is None else server_names

    async def hold() -> list[dict[str, Any]]:
        recorder = Recorder(_Still())
        links = Links(recorder)
        turns = [rename(reply, reply_names).encode() + b"\r\n" for _, reply in SAID]
        async with asyncio.timeout(20), scripted_server(*turns) as (address, _):
            link = await links.open("hub1", "hub2", "transport", address, dialect=spoken)
            if at is not None:
                fault = {"as": "f", "from": "hub1", "to": "hub2", "listener": "transport", "at": at, "when": when}
                kind = {"does": "replace", "reply": "451 4.0.0 no"} if when == "after" else {"does": "split"}
                links.arm(Fault.model_validate({**fault, **kind, "times": None}))
            reader, writer = await asyncio.open_connection(*link.address)
            for said, _ in SAID:
                if said:
                    writer.write(rename(said, names).encode() + b"\r\n")
                while (line := await reader.readline())[3:4] == b"-":
                    pass
                assert line
            writer.close()
            await links.close()
        return [_comparable(event) for event in recorder.events if isinstance(event, Command | Reply | FaultFired)]

    return asyncio.run(hold())


def _comparable(event: Command | Reply | FaultFired) -> dict[str, Any]:
    found = {key: value for key, value in asdict(event).items() if key not in ("line", "lines", "t", "detail")}
    if isinstance(event, Reply):
        found["offered"] = [line.split(" ")[0] for line in event.lines[1:]] if event.to in ("EHLO", "LHLO") else []
    return found


@pytest.mark.parametrize("names", [FRESH, SWAPPED], ids=["fresh", "swapped"])
def test_a_conversation_under_other_names_is_recorded_alike(names: dict[str, str]) -> None:
    usual = record_events({}, PROFILE_1)
    assert {one["operation"]["name"] for one in usual if one.get("operation")} == {
        *OPERATIONS, "shadow-stored", "discard-list",
    }  # fmt: skip
    assert {one["verb"] for one in usual if "verb" in one} >= set(VERBS)
    assert record_events(names, dialect(names)) == usual


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", [*VERBS, *OPERATIONS])
@pytest.mark.parametrize("names", [FRESH, SWAPPED], ids=["fresh", "swapped"])
def test_a_fault_fires_at_the_same_lines_under_other_names(names: dict[str, str], at: str, when: str) -> None:
    usual = record_events({}, PROFILE_1, at, when)
    assert [one for one in usual if "fault" in one]
    assert record_events(names, dialect(names), at, when) == usual


def test_a_clients_own_verbs_are_understood_where_the_server_does_not_offer_them() -> None:
    """The server offers the keywords of the wire profile only; the client uses verbs of its own nevertheless."""
    seen = record_events(FRESH, PROFILE_1.combined_with(dialect(FRESH)), server_names={})
    asked = [one["operation"]["name"] for one in seen if "verb" in one and one["operation"]]
    assert asked == ["track-shadow", "request-shadow", "shadow-message", "query-discard", "query-discard"]
    assert seen == record_events({}, PROFILE_1)


def test_two_parties_of_one_dialect_speak_it_with_each_other() -> None:
    assert PROFILE_1.combined_with(PROFILE_1) is PROFILE_1
    fresh = dialect(FRESH)
    assert fresh.combined_with(dialect(FRESH)) is fresh
    assert record_events(FRESH, fresh) == record_events({}, PROFILE_1)
