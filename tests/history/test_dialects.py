"""Dialects: what lines mean, in the built-in profile and in a foreign spelling."""

import pytest
from pydantic import ValidationError

from conformance.history.dialects import PROFILE_1, Dialect
from conformance.history.values import Operation


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("XSHADOWREQUEST mbx1 db-1", Operation(name="request-shadow", server="mbx1", database="db-1")),
        ("xshadow hub1 db-2", Operation(name="track-shadow", server="hub1", database="db-2")),
        ("MAIL FROM:<a@b> SIZE=1 XSHADOW=db-1-7", Operation(name="shadow-message", shadow_id="db-1-7")),
        ("MAIL FROM:<> XSHADOW=x RET=HDRS", Operation(name="shadow-message", shadow_id="x")),
        ("XQDISCARD mbx2 100", Operation(name="query-discard", server="mbx2", limit=100)),
        ("XQUERYDISCARD hub1 5", Operation(name="query-discard", server="hub1", limit=5)),
        ("MAIL FROM:<a@b> SIZE=1", None),
        ("MAIL FROM:<a@b> XSHADOW=" + "x" * 65, None),
        ("XSHADOWREQUEST mbx1", None),
        ("XSHADOWREQUEST mbx1 db 1", None),
        ("XQDISCARD mbx2 -1", None),
        ("NOOP XQDISCARD mbx2 1", None),
    ],
)
def test_profile_1_parses_commands(line: str, meaning: Operation | None) -> None:
    assert PROFILE_1.parse_command(line) == meaning


def test_profile_1_parses_replies() -> None:
    asked = PROFILE_1.parse_command("XQDISCARD mbx2 2")
    lines = ("2.0.0 database db-1", "2.0.0 discard db-1-7", "2.0.0 discard db-1-9", "2.0.0 end 3")
    assert PROFILE_1.parse_reply(asked, 250, lines, content=False) == Operation(
        name="discard-list", database="db-1", shadow_ids=("db-1-7", "db-1-9"), left=3
    )
    assert PROFILE_1.parse_reply(asked, 250, ("2.0.0 database db-1", "2.0.0 end 0"), content=False) == Operation(
        name="discard-list", database="db-1", left=0
    )
    assert PROFILE_1.parse_reply(asked, 502, ("5.5.1 no",), content=False) is None
    assert PROFILE_1.parse_reply(None, 250, lines, content=False) is None
    request = PROFILE_1.parse_command("XSHADOWREQUEST mbx1 db-1")
    assert PROFILE_1.parse_reply(request, 250, ("2.0.0 mbx2 db-2",), content=False) == Operation(
        name="request-shadow", server="mbx2", database="db-2"
    )
    tracking = PROFILE_1.parse_command("XSHADOW hub1 db-1")
    assert PROFILE_1.parse_reply(tracking, 250, ("2.0.0 hub2 db-2",), content=False) == Operation(
        name="track-shadow", server="hub2", database="db-2"
    )


def test_only_a_positive_reply_after_the_content_means_stored() -> None:
    asked = PROFILE_1.parse_command("MAIL FROM:<a@b> XSHADOW=db-1-7")
    assert PROFILE_1.parse_reply(asked, 250, ("2.1.0 OK",), content=False) is None
    for code in (354, 451, 550):
        assert PROFILE_1.parse_reply(asked, code, ("4.3.0 no",), content=True) is None
    stored = PROFILE_1.parse_reply(asked, 250, ("2.6.0 <1@x> Queued mail for redundancy",), content=True)
    assert stored == Operation(name="shadow-stored", shadow_id="db-1-7")


def test_a_dialect_defined_as_data_parses_its_own_lines() -> None:
    foreign = Dialect.model_validate(
        {
            "name": "foreign",
            "commands": [{"operation": "query-discard", "pattern": r"^XDONE (?P<limit>\d+) (?P<server>\S+)$"}],
            "replies": [
                {"operation": "discard-list", "to": "query-discard", "patterns": [r"^done=(?P<shadow_id>\w+)$"]}
            ],
        }
    )
    asked = foreign.parse_command("xdone 7 mbx9")
    assert asked == Operation(name="query-discard", server="mbx9", limit=7)
    found = foreign.parse_reply(asked, 250, ("ok", "done=a", "done=b"), content=False)
    assert found == Operation(name="discard-list", shadow_ids=("a", "b"))
    assert foreign.parse_command("XQDISCARD mbx9 7") is None, "a line of another dialect"
    assert PROFILE_1.parse_command("xdone 7 mbx9") is None


@pytest.mark.parametrize(
    ("pattern", "why"), [("(", "is not a regular expression"), (r"(?P<who>x)", "has a group 'who'; allowed are")]
)
def test_an_invalid_pattern_is_refused(pattern: str, why: str) -> None:
    command = {"operation": "query-discard", "pattern": pattern}
    reply = {"operation": "discard-list", "to": "query-discard", "patterns": [pattern]}
    for commands, replies in (([command], []), ([], [reply])):
        with pytest.raises(ValidationError, match=why):
            Dialect.model_validate({"name": "x", "commands": commands, "replies": replies})
