"""Exchange 2010 (SR-E10): which servers take part by their rights, and what a hub answers to the verbs of the dialect."""

from pathlib import Path

import pytest

from conformance.reference.boundary import advertises_xshadow_to, sends_xshadow_to
from conformance.reference.config import NodeConfiguration, Peer
from conformance.reference.host import Host
from conformance.reference.hub2010.verbs import HubVerbs
from conformance.reference.receive.verbs import SessionState
from tests.docs.pages import ROOT
from tests.reference.hosts import HandClock, configured, run_with_hub


def hub(**changes: object) -> NodeConfiguration:
    return configured("hubs-one-site", **changes)


def with_rights(config: NodeConfiguration, **rights: object) -> Peer:
    return config.peers_by_name["hub2"].model_copy(update=rights)


def greeted_by_hub2(host: Host) -> SessionState:
    """Return a session in which another hub has said EHLO."""
    session_state = SessionState("transport")
    session_state.greeted, session_state.peer = True, host.config.peers_by_name["hub2"]
    return session_state


def test_each_right_counts_in_its_own_direction():
    config = hub()
    may_send_only = with_rights(config, accept_xshadow=False)
    may_accept_only = with_rights(config, send_xshadow=False)
    assert (advertises_xshadow_to(config, may_send_only), sends_xshadow_to(config, may_send_only)) == (False, True)
    assert (advertises_xshadow_to(config, may_accept_only), sends_xshadow_to(config, may_accept_only)) == (True, False)


def test_no_right_counts_while_shadow_redundancy_is_disabled():
    for enabled in (True, False):
        config = hub(ShadowRedundancyEnabled=enabled)
        peer = with_rights(config, accept_xshadow=True, send_xshadow=True)
        assert (advertises_xshadow_to(config, peer), sends_xshadow_to(config, peer)) == (enabled, enabled)


def test_unauthenticated_clients_and_the_submission_service_have_no_rights():
    config = hub()
    assert advertises_xshadow_to(config, with_rights(config, accept_xshadow=True))
    assert sends_xshadow_to(config, with_rights(config, send_xshadow=True))
    submission = config.peers_by_name["submission"].model_copy(update={"accept_xshadow": True, "send_xshadow": True})
    assert not advertises_xshadow_to(config, None)
    assert not sends_xshadow_to(config, None)
    assert not advertises_xshadow_to(config, submission)
    assert not sends_xshadow_to(config, submission)


IDENTITY = ("250 2.0.0 <server> <database>",)
DISCARDS = ("250-2.0.0 database <database>", "250-2.0.0 discard <shadow-id>", "250 2.0.0 end <number-left>")
MALFORMED = "| missing, surplus or malformed arguments | `501 5.5.4` |"
NOT_OFFERED = "| a verb that the client was not offered on this listener | `502 5.5.1` |"
NOT_ITS_NAME = "| a `<server>` that is not the client's own name | `550 5.7.1` |"


@pytest.mark.parametrize(
    ("said", "rows"),
    [
        ("XSHADOW hub2 a-database", IDENTITY),
        ("XSHADOW HUB2 a-database", IDENTITY),
        ("XSHADOW hub3 a-database", NOT_ITS_NAME),
        ("XSHADOW hub2", MALFORMED),
        ("XSHADOW hub2 a-database more", MALFORMED),
        ("XSHADOW hub2 no_database", MALFORMED),
        ("XQDISCARD hub2 0", MALFORMED),
        ("XQDISCARD hub3 10", NOT_ITS_NAME),
        ("XQDISCARD hub2 10", DISCARDS),
        ("XQUERYDISCARD hub2 10", DISCARDS),
        ("XSHADOWREQUEST hub2 a-database", NOT_OFFERED),
    ],
)
def test_verbs_are_answered_as_the_profile_says(tmp_path: Path, said: str, rows: str | tuple[str, ...]):
    profile = (ROOT / "docs" / "wire-profile.md").read_text("utf-8")

    async def steps(host: Host, clock: HandClock) -> None:
        host.discards.queue_notification("hub2", "id-2", clock.now())
        host.discards.queue_notification("hub3", "id-3", clock.now())
        verb, *words = said.split()
        lines = await HubVerbs(host, greeted_by_hub2(host)).dispatch(verb, words)
        if isinstance(rows, str):
            assert rows in profile
            assert [line[:10] for line in lines] == [f"{rows.split('`')[-2]} "]
        else:
            assert [row for row in rows if f"| `S: {row}` |" not in profile] == []
            own = {"<server>": "hub1", "<database>": host.identity.database}
            own |= {"<shadow-id>": "id-2", "<number-left>": "0"}
            assert lines == [" ".join(own.get(word, word) for word in row.split()) for row in rows]

    run_with_hub(tmp_path, steps)


def test_xshadow_is_accepted_once_in_a_session_and_outside_of_transactions(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        session_state = greeted_by_hub2(host)
        verbs = HubVerbs(host, session_state)
        session_state.in_transaction = True
        assert (await verbs.dispatch("XSHADOW", ["hub2", "db"]))[0].startswith("503 5.5.1")
        session_state.in_transaction = False
        assert (await verbs.dispatch("XSHADOW", ["hub2", "db"]))[0].startswith("250 ")
        assert (await verbs.dispatch("XSHADOW", ["hub2", "db"]))[0].startswith("503 5.5.1")
        other = HubVerbs(host, greeted_by_hub2(host))
        assert (await other.dispatch("XSHADOW", ["hub2", "db"]))[0].startswith("250 "), "it is another session"

    run_with_hub(tmp_path, steps)
