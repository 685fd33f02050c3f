"""The reference and the example reply, print and write what the pages of the wire profile and the node contract show."""

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.docs.conversing import (
    CONTRACT,
    CONVERSATIONS,
    EXAMPLES,
    PROFILE,
    PROGRAMS,
    WITHIN,
    Party,
    Program,
    check_conversation,
    document,
    parties,
    running,
)  # fmt: skip

pytestmark = pytest.mark.integration

BOTH = pytest.mark.parametrize("name", sorted(PROGRAMS))
MESSAGE = "Message-ID: <{}@outside.test>\r\nDate: Tue, 01 Jan 2030 10:00:00 +0000\r\nSubject: {}\r\n\r\ntext"
SHADOWING, ASKING, TRACKING, QUERYING, REFUSING = range(5)


def test_the_conversations_of_the_page_are_those_that_the_tests_name() -> None:
    assert len(CONVERSATIONS) == len((SHADOWING, ASKING, TRACKING, QUERYING, REFUSING))
    verbs = [re.findall(r"^C: (\S+)", text, re.MULTILINE) for text in CONVERSATIONS]
    assert "XSHADOWREQUEST" in verbs[SHADOWING]
    assert verbs[ASKING] == ["EHLO", "XQDISCARD", "XQDISCARD", "QUIT"]
    assert "XSHADOW" in verbs[TRACKING]
    assert verbs[QUERYING] == ["EHLO", "XQUERYDISCARD", "QUIT"]
    assert CONVERSATIONS[REFUSING].count("S: 5") == 4
    assert PROFILE.count("```") == 2 * len(CONVERSATIONS)
    assert CONTRACT.count("```json") == len(EXAMPLES)


def peer(name: str, party: Party, **changes: Any) -> dict[str, Any]:
    return EXAMPLES[0]["peers"][0] | {"name": name, "dial": {"transport": party.dial, "delivery": party.dial}} | changes


def with_route(outside: Party, **changes: Any) -> dict[str, Any]:
    route = {"domain": "outside.test", "next_hops": [{"name": "outside", "protocol": "smtp", "dial": outside.dial}]}
    return {"routes": [route], "mailboxes": []} | changes


def send_message(
    program: Program, number: int, to: str, subject: str = "plain", hello: str = "stranger", extra: str = ""
) -> None:
    """Send one message to the node's transport listener; `extra` is a shadow request to send first."""
    lines = [f"C: EHLO {hello}", "S: 250 x", *([f"C: {extra}", "S: 250 2.0.0 mbx1 any"] if extra else [])]
    shadow = f" XSHADOW={extra.split()[2]}-{number}" if extra else ""
    lines += [f"C: MAIL FROM:<alice@outside.test>{shadow}", "S: 250 2.1.0 ok", f"C: RCPT TO:<{to}>", "S: 250 2.1.5 ok"]
    lines += ["C: DATA", "S: 354 go on", "C: (the content)", "C: .", "S: 250 2.6.0 taken"]
    text = "\n".join(lines).replace("S: 250 x", f"S: 250 {program.given['name']}")
    text = text.replace("S: 250 2.0.0 mbx1 any", f"S: 250 2.0.0 {program.given['name']} aaaaaa-1")
    check_conversation(
        program.given["listeners"]["transport"]["port"], text, [MESSAGE.format(number, subject)], whole_greeting=False
    )


def defer_held(content: str) -> str:
    return "451 4.3.0 defer_held" if "Subject: held" in content else "250 2.0.0 taken"


@BOTH
def test_a_shadow_copy_is_accepted_as_on_the_page(name: str, tmp_path: Path):
    with (
        parties(mbx1=Party("mbx1")) as made,
        running(name, tmp_path, name="mbx2", peers=[peer("mbx1", made["mbx1"])]) as node,
    ):
        port = node.given["listeners"]["transport"]["port"]
        bound = check_conversation(port, CONVERSATIONS[SHADOWING], [MESSAGE.format(1, "plain")], whole_greeting=True)
        assert bound["90be17-1"] == node.command("inspect")["database"]
        assert [item["shadow_id"] for item in node.items("shadow")] == ["6f1c2a-1-17"]


@BOTH
def test_a_discard_query_is_answered_as_on_the_page(name: str, tmp_path: Path):
    with parties(mbx2=Party("mbx2"), outside=Party("outside", defer_held)) as made:
        changes = with_route(made["outside"], peers=[peer("mbx2", made["mbx2"], site="NewYork")])
        with running(name, tmp_path, **changes) as node:
            for number in range(3):
                send_message(node, number, "victor@outside.test")
            node.wait_for(lambda: len(node.items("discard")) == 3)
            port = node.given["listeners"]["transport"]["port"]
            bound = check_conversation(port, CONVERSATIONS[ASKING], [], whole_greeting=False)
            assert sorted(made["mbx2"].shadow_ids) == sorted(set(bound.values()) - {bound["6f1c2a-1"]})
            node.wait_for(lambda: not node.items("discard"))


@pytest.mark.parametrize("which", [TRACKING, QUERYING])
def test_shadowing_of_2010_is_answered_as_on_the_page(tmp_path: Path, which: int):
    number = {TRACKING: 2, QUERYING: 4}[which]
    with parties(hub1=Party("hub1"), outside=Party("outside", defer_held)) as made:
        hub = {"generation": "ex2010", "role": "hub", "dag": None}
        listeners = {door: one for door, one in EXAMPLES[0]["listeners"].items() if door != "delivery"}
        peers = [peer("hub1", made["hub1"], **hub)]
        changes = with_route(made["outside"], name="hub2", peers=peers, listeners=listeners, **hub)
        with running("reference", tmp_path, **changes) as node:
            send_message(node, number, "victor@outside.test", hello="hub1", extra="XSHADOW hub1 51aa03-1")
            node.wait_for(lambda: node.items("discard"))
            port = node.given["listeners"]["transport"]["port"]
            bound = check_conversation(port, CONVERSATIONS[which], [MESSAGE.format(1, "held")], whole_greeting=False)
            assert bound[f"51aa03-1-{number}"] == f"51aa03-1-{number}"


@BOTH
def test_refusals_have_the_reply_codes_of_the_page(name: str, tmp_path: Path):
    with (
        parties(mbx1=Party("mbx1")) as made,
        running(name, tmp_path, name="mbx2", peers=[peer("mbx1", made["mbx1"])]) as node,
    ):
        check_conversation(
            node.given["listeners"]["transport"]["port"], CONVERSATIONS[REFUSING], [], whole_greeting=False
        )


@BOTH
def test_mandatory_redundancy_without_a_shadow_server_gives_451(name: str, tmp_path: Path):
    assert "| `451 4.4.0 Message failed to be made redundant`, the reply to the final dot |" in PROFILE
    transport = EXAMPLES[0]["transport"] | {"RejectMessageOnShadowFailure": True}
    with (
        parties(outside=Party("outside")) as made,
        running(name, tmp_path, **with_route(made["outside"], peers=[], transport=transport)) as node,
    ):
        lines = """C: EHLO x\nS: 250-mbx1\nC: MAIL FROM:<a@outside.test>\nS: 250 2.1.0 ok\nC: RCPT TO:<v@outside.test>
S: 250 2.1.5 ok\nC: DATA\nS: 354 go on\nC: (the content)\nC: .\nS: 451 4.4.0 Message failed to be made redundant"""
        port = node.given["listeners"]["frontend"]["port"]
        check_conversation(port, lines, [MESSAGE.format(1, "plain")], whole_greeting=False)


def without_ids(printed: dict[str, Any]) -> dict[str, Any]:
    """Return what `inspect` prints with placeholders for ids, times and names of queues.

    Queues without items may be left out, and the page's server has no Safety Net.
    """
    queues = [one | {"queue": "", "items": [item | {"since": 0, "shadow_id": ""} for item in one["items"]]}
              for one in printed["queues"] if one["items"] and one["kind"] != "safety-net"]  # fmt: skip
    return printed | {"database": "", "queues": sorted(queues, key=lambda one: one["kind"])}


@BOTH
def test_inspect_prints_what_the_page_shows_with_ids_and_times_of_its_own(name: str, tmp_path: Path):
    (page,) = [one for one in EXAMPLES if "queues" in one]
    with parties(mbx2=Party("mbx2"), outside=Party("outside", defer_held)) as made:
        boxes = [
            {"address": f"{who}@corp.test", "database": "DB1", "server": "mbx1",
             "sink": {"protocol": "lmtp", "dial": made["outside"].dial}} for who in ("bob", "dave")
        ]  # fmt: skip
        peers = [peer("mbx2", made["mbx2"], site="NewYork")]
        with running(name, tmp_path, **with_route(made["outside"], peers=peers, mailboxes=boxes)) as node:
            send_message(node, 0, "bob@corp.test")
            send_message(node, 1, "victor@outside.test", "held")
            send_message(node, 2, "dave@corp.test", hello="mbx2", extra="XSHADOWREQUEST mbx2 90be17-1")
            node.wait_for(lambda: node.items("discard"))
            before, printed = time.time(), node.command("inspect")
            names = [queue["queue"] for queue in printed["queues"]]
            assert len(set(names)) == len(names)
            items = [item for queue in printed["queues"] for item in queue["items"]]
            assert all(before - 60 < item["since"] <= before and item["shadow_id"] for item in items)
            assert printed["database"]
            assert without_ids(printed) == without_ids(page)
            assert [item["shadow_id"] for item in node.items("shadow")] == ["90be17-1-2"]


@BOTH
def test_a_reload_writes_the_status_that_the_page_shows(name: str, tmp_path: Path):
    applied, refused = (one for one in EXAMPLES if "applied" in one)
    with running(name, tmp_path, peers=[], routes=[], mailboxes=[]) as node:
        assert node.wait_for(node.status) == applied | {"revision": 1}
        node.write(revision=2)
        node.process.send_signal(signal.SIGHUP)
        assert node.wait_for(lambda: node.status()["revision"] == 2 and node.status()) == applied
        node.write(revision=3, transport=EXAMPLES[0]["transport"] | {"MaxRetriesForLocalSiteShadow": -1})
        node.process.send_signal(signal.SIGHUP)
        status = node.wait_for(lambda: node.status()["revision"] == 3 and node.status())
        assert status | {"revision": 2, "error": ""} == refused | {"error": ""}
        assert "MaxRetriesForLocalSiteShadow" in status["error"]
        assert "\n" not in status["error"]
        node.path.write_text("no JSON", "utf-8")
        node.process.send_signal(signal.SIGHUP)
        node.write(revision=5, transport=EXAMPLES[0]["transport"])
        node.process.send_signal(signal.SIGHUP)
        assert node.wait_for(lambda: node.status()["revision"] == 5 and node.status()) == applied | {"revision": 5}


@BOTH
def test_an_unknown_key_makes_the_start_fail_with_one_line(name: str, tmp_path: Path):
    given = document(tmp_path, bogus=1)
    (tmp_path / "node.json").write_text(json.dumps(given), "utf-8")
    words = [*PROGRAMS[name], "--config", str(tmp_path / "node.json")]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=WITHIN)
    assert ran.returncode == 2
    assert "bogus" in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.long
def test_redirect_messages_and_resubmit_print_what_the_page_shows(tmp_path: Path):
    redirected, resubmitted = (one for one in EXAMPLES if "redirected" in one or "resubmitted" in one)
    with parties(mbx2=Party("mbx2"), outside=Party("outside", defer_held)) as made:
        box = {"address": "bob@corp.test", "database": "DB1", "server": "mbx1",
               "sink": {"protocol": "lmtp", "dial": made["outside"].dial}}  # fmt: skip
        peers = [peer("mbx2", made["mbx2"], site="NewYork")]
        with running("reference", tmp_path, **with_route(made["outside"], peers=peers, mailboxes=[box])) as node:
            for number in range(3):
                send_message(node, number, "bob@corp.test")
            node.wait_for(lambda: len(node.items("safety-net")) == 3)
            assert node.command("resubmit", "DB1") == resubmitted
            for number in range(3, 8):
                send_message(node, number, "victor@outside.test", "held")
            node.wait_for(lambda: len(node.items("delivery")) == 5)
            assert node.command("redirect-messages", "mbx2") == redirected
