"""Sinks, links and servers for tests of other projects (`conformance.testing`, `conformance.fixtures`)."""

import json
import re
import smtplib
import socket
import threading
from pathlib import Path

import pytest

from conformance.candidates.description import REFERENCE, CandidateError
from conformance.history.events import Closed, Delivered, FaultFired, NodeEvent
from conformance.nodes.contract import NodeError
from conformance.results.layout import archive_path, attachments_folder
from conformance.results.reader import read_cell
from conformance.run.cell import CellRunner, RecordedRun
from conformance.run.world import World
from conformance.scenarios.cells import Cell
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.own_timers import OwnTimers
from conformance.testing import MailBench, MailLink, MailNode, MailNodes, MailSink
from tests.results.stored import plain

pytest_plugins = ["conformance.fixtures"]
pytestmark = pytest.mark.integration

LETTER = "Subject: hello\r\nMessage-ID: <1@app.test>\r\n\r\nFirst line\r\n.A dot\r\n"


def send(server: MailLink, *recipients: str, client: type[smtplib.SMTP] = smtplib.SMTP) -> dict[str, tuple[int, bytes]]:
    with client(server.host, server.port, timeout=20) as session:
        return session.sendmail("app@app.test", recipients or ["victor@outside.test"], LETTER)


def test_a_sink_returns_the_envelope_and_the_content_octet_for_octet(smtp_sink: MailSink):
    send(smtp_sink, "victor@outside.test", "Wanda@outside.test")
    (taken,) = smtp_sink.wait_for(1)
    assert (taken.sender, taken.recipients) == ("app@app.test", ("victor@outside.test", "Wanda@outside.test"))
    assert taken.content == LETTER.encode()
    assert taken.message["Subject"] == "hello"
    verbs = [line.split()[0].upper() for line in smtp_sink.commands]
    assert verbs == ["EHLO", "MAIL", "RCPT", "RCPT", "DATA", "QUIT"]
    assert sum(isinstance(event, Delivered) for event in smtp_sink.history) == 2
    octets = b"Subject: odd\r\n\r\n\xff\xc3\x80 \t\r\n\r\n"
    with smtplib.SMTP(smtp_sink.host, smtp_sink.port) as client:
        client.sendmail("app@app.test", ["victor@outside.test"], octets)
    assert smtp_sink.messages[1].content == octets


@pytest.mark.parametrize(
    ("at", "reply", "error"),
    [
        ("connect", "421 4.3.2 not now", smtplib.SMTPConnectError),
        ("MAIL", "451 4.3.0 later", smtplib.SMTPSenderRefused),
        ("RCPT", "550 5.1.1 unknown", smtplib.SMTPRecipientsRefused),
        ("DATA", "451 4.3.0 later", smtplib.SMTPDataError),
        ("dot", "554 5.6.0 no", smtplib.SMTPDataError),
    ],
)
def test_a_scripted_answer_of_a_sink_is_given_once_with_times_1(
    smtp_sink: MailSink, at: str, reply: str, error: type[Exception]
):
    smtp_sink.answer(at, reply, times=1)  # type: ignore[arg-type]  # each of them is one of the literals
    with pytest.raises(error, match=re.escape(f"({reply[:3]}, b'{reply[4:]}'")):
        send(smtp_sink)
    assert smtp_sink.messages == []
    send(smtp_sink)
    assert len(smtp_sink.messages) == 1


def test_a_sink_that_speaks_lmtp_answers_each_recipient(lmtp_sink: MailSink):
    lmtp_sink.answer("dot", "452 4.2.2 full", recipient="bob@corp.test")
    with smtplib.LMTP(lmtp_sink.host, lmtp_sink.port) as session:
        session.ehlo_or_helo_if_needed()
        session.mail("app@app.test")
        for recipient in ("bob@corp.test", "carol@corp.test"):
            assert session.rcpt(recipient)[0] == 250
        assert session.data(LETTER)[0] == 452
        assert session.getreply()[0] == 250  # smtplib reads the reply of the first recipient alone
    (taken,) = lmtp_sink.wait_for(1)
    assert taken.recipients == ("carol@corp.test",)


def test_a_fault_fires_at_its_point_and_is_recorded(smtp_sink: MailSink):
    smtp_sink.fault("reset", at="dot", when="heard")
    with pytest.raises((smtplib.SMTPServerDisconnected, ConnectionResetError)):
        send(smtp_sink)
    assert len(smtp_sink.wait_for(1)) == 1
    (fired,) = (event for event in smtp_sink.history if isinstance(event, FaultFired))
    assert (fired.action, fired.detail.partition(":")[0]) == ("reset", "with dot heard")


def test_an_invalid_fault_and_an_unknown_name_are_refused(smtp_sink: MailSink):
    with pytest.raises(ValueError, match="reply"):
        smtp_sink.fault("replace", at="dot")
    with pytest.raises(ValueError, match="no fault"):
        smtp_sink.heal("fault-7")


def test_a_timeout_reports_how_many_messages_arrived(smtp_sink: MailSink) -> None:
    with pytest.raises(TimeoutError, match="0 of 2 messages came within 0.05 s"):
        smtp_sink.wait_for(2, within=0.05)
    send(smtp_sink)
    with pytest.raises(TimeoutError, match="1 of 2 messages came within 0.05 s"):
        smtp_sink.wait_for(2, within=0.05)


def test_a_link_to_a_running_server_records_commands_and_applies_faults(smtp_sink: MailSink, smtp_link):
    link = smtp_link(smtp_sink.host, smtp_sink.port)
    name = link.fault("refuse", times=None)
    with pytest.raises((ConnectionError, smtplib.SMTPServerDisconnected)):
        send(link)
    link.heal(name)
    send(link)
    assert len(smtp_sink.messages) == 1
    assert link.commands == smtp_sink.commands
    assert [line.split()[0].upper() for line in link.commands] == ["EHLO", "MAIL", "RCPT", "DATA", "QUIT"]


def test_a_link_connects_to_another_server_from_then_on(smtp_sink: MailSink, mail_bench: MailBench):
    other = mail_bench.sink("other", "smtp")
    send(smtp_sink)
    smtp_sink.connect_to(other.host, other.port)
    for _ in range(2):
        send(smtp_sink)
    assert (len(smtp_sink.messages), len(other.messages)) == (1, 2)


def test_a_session_that_its_client_quits_is_waited_for_and_not_reset(smtp_sink: MailSink):
    with smtplib.SMTP(smtp_sink.host, smtp_sink.port) as client:
        client.ehlo()
        leaving = threading.Timer(0.1, client.quit)
        leaving.start()
        smtp_sink.end_sessions(within=60)
        (closed,) = [event for event in smtp_sink.history if isinstance(event, Closed)]
        leaving.join()
    assert (closed.by, closed.how) == ("server", "fin"), "in reply to QUIT"


def test_a_session_that_its_client_keeps_is_reset_after_the_wait_and_the_next_one_is_none_of_it(
    smtp_sink: MailSink, mail_bench: MailBench
):
    other = mail_bench.sink("other", "smtp")
    with smtplib.SMTP(smtp_sink.host, smtp_sink.port) as client:
        client.ehlo()
        smtp_sink.connect_to(other.host, other.port)
        smtp_sink.end_sessions(within=0.05)
        (closed,) = [event for event in smtp_sink.history if isinstance(event, Closed)]
        with pytest.raises((ConnectionError, smtplib.SMTPServerDisconnected)):
            client.mail("app@app.test")
    assert (closed.by, closed.how) == ("link", "reset")
    send(smtp_sink)
    assert (len(smtp_sink.messages), len(other.messages)) == (0, 1)


def test_waiting_for_a_condition_says_whether_it_holds(smtp_sink: MailSink):
    assert not smtp_sink.wait_until(lambda messages: bool(messages), within=0.05)
    threading.Timer(0.1, send, (smtp_sink,)).start()
    assert smtp_sink.wait_until(lambda messages: messages[0].sender == "app@app.test" if messages else False)


def test_sinks_are_independent_and_two_of_one_protocol_have_distinct_names(mail_bench: MailBench):
    one, other = mail_bench.sink("one", "smtp"), mail_bench.sink("other", "smtp")
    send(one)
    assert (len(one.messages), len(other.messages)) == (1, 0)
    assert other.commands == []
    with pytest.raises(ValueError, match="already"):
        mail_bench.sink("one", "smtp")


def test_a_server_keeps_its_queue_after_a_kill(mail_node):
    node: MailNode = mail_node("exec:reference")
    node.next_hop.answer("MAIL", "451 4.3.0 later")
    send(node)
    node.kill()
    with pytest.raises((ConnectionError, smtplib.SMTPServerDisconnected)):
        send(node)
    node.next_hop.answer("MAIL", "accept")
    node.start()
    (taken,) = node.next_hop.wait_for(1, within=90)
    assert taken.message["Subject"] == "hello"
    actions = [event.action for event in node.history if isinstance(event, NodeEvent)]
    assert actions == ["started", "ready", "killed", "started", "ready"]
    assert node.log.exists()


def test_two_servers_with_names_of_their_own_pass_mail_from_one_to_the_other(mail_node):
    one, other = (mail_node("exec:reference", name=name) for name in ("one1", "other1"))
    one.next_hop.connect_to(other.host, other.port)
    send(one)
    (taken,) = other.next_hop.wait_for(1, within=30)
    hosts = [line.split("by ")[1].split()[0] for line in taken.message.get_all("Received")]
    assert [host.partition(".")[0] for host in hosts] == ["other1", "one1"]


@pytest.mark.parametrize("stream", [1, 2])
def test_a_server_that_does_not_start_raises_an_error_with_its_output(mail_node, tmp_path: Path, stream: int):
    broken = tmp_path / "broken.yaml"
    argv = f"[sh, -c, 'echo fatal: no licence >&{stream}; exit 3']"
    broken.write_text(f"name: broken\nkind: exec\nclaims: [relay]\nlisteners: [frontend]\nargv: {argv}\n", "utf-8")
    with pytest.raises(NodeError, match="exit code 3: fatal: no licence"):
        mail_node(str(broken))


@pytest.mark.parametrize(("candidate", "has_threads"), [("reference", False), ("exec:reference", True)])
def test_no_thread_outlives_a_server(candidate: str, has_threads: bool, tmp_path: Path):
    before = set(threading.enumerate())
    nodes = MailNodes(tmp_path / "nodes")
    loops = set(threading.enumerate())
    assert loops - before
    nodes.start(candidate)
    assert bool(set(threading.enumerate()) - loops) is has_threads
    nodes.close()
    assert set(threading.enumerate()) <= before


def test_a_closed_bench_leaves_no_thread_and_no_listener():
    before = set(threading.enumerate())
    bench = MailBench()
    sink = bench.sink("one", "smtp")
    send(sink)
    link = bench.link("server", bench._sinks[0].address)
    send(link)
    other = bench.sink("one", "lmtp")
    listening = [(one.host, one.port) for one in (sink, other, link)] + [one.address for one in bench._sinks]
    assert len(set(listening)) == 5
    assert set(threading.enumerate()) != before
    bench.close()
    assert set(threading.enumerate()) <= before
    for address in listening:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)


OWN_TIMERS = """\
id: kept-for-its-own-time
title: A message that nobody takes is kept for the server's own time
requirements: [RL-RTY-01]
needs: [relay]
topology: relay
timers: own
drain: 0s
steps:
  - send: {as: m, to: wendy@second.test, via: mta1}
  - expect: {reply: {of: m, code: 250}}
  - advance: "${own-given-up-after}"
"""


DESCRIBED = {
    "source": "none: made up",
    "tries-in-first-hour": 2,
    "tries-in-half-a-day": 3,
    "given-up-after": "2h",
    "given-up-by": "3h",
}


def test_a_scenario_with_own_timers_has_those_of_the_candidate(run_scenario, tmp_path: Path):
    file, description = tmp_path / "own.scenario.yaml", tmp_path / "mine.yaml"
    file.write_text(OWN_TIMERS, "utf-8")
    mine = {"name": "mine", "kind": "python", "factory": "conformance.reference.node:create", "claims": ["relay"]}
    description.write_text(json.dumps({**mine, "own-timers": DESCRIBED}), "utf-8")
    assert REFERENCE.own_timers is not None
    for candidate, timers in (
        ("reference", REFERENCE.own_timers),
        (str(description), OwnTimers.model_validate(DESCRIBED)),
    ):
        (result,) = run_scenario(file, candidate)
        assert str(result.outcome) == "pass"
        assert timers.given_up_after <= max(event.t for event in result.events) < timers.given_up_after + 600
        assert OwnTimers.model_validate(read_cell(result.file).header.own_timers) == timers


@pytest.mark.parametrize(("problem", "left"), [("", []), ("it broke", ["mta1"])])
def test_the_logs_of_a_result_are_those_that_are_not_compressed(
    run_scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str, left: list[str]
):
    async def run(self: CellRunner, _: object) -> RecordedRun:
        log = self.directory / "mta1" / "node.log"
        log.parent.mkdir()
        log.write_text("ready\n", "utf-8")
        return RecordedRun((), problem, simulated=0.0, logs={"mta1": log})

    monkeypatch.setattr(CellRunner, "run", run)
    file = tmp_path / "own.scenario.yaml"
    file.write_text(OWN_TIMERS.partition("steps:")[0] + "steps: [{advance: 1s}]\n", "utf-8")
    (result,) = run_scenario(file)
    assert list(result.logs) == left
    assert all(path.is_file() for path in result.logs.values())
    assert archive_path(attachments_folder(result.file)).exists() is not bool(left)


def test_a_name_that_is_refused_does_not_prevent_the_next_start(mail_node):
    with pytest.raises(InvalidFile, match="a name is given to two parties"):
        mail_node("reference", name="outside")
    send(mail_node("reference"))


def test_the_commands_of_two_sinks_of_one_name_are_apart(mail_bench: MailBench):
    sinks = mail_bench.sink("store", "smtp"), mail_bench.sink("store", "lmtp")
    send(sinks[0], client=smtplib.SMTP)
    send(sinks[1], client=smtplib.LMTP)
    for sink, hello in zip(sinks, ("EHLO", "LHLO"), strict=True):
        assert [line.split()[0].upper() for line in sink.commands] == [hello, "MAIL", "RCPT", "DATA", "QUIT"]


def test_a_scenario_without_a_clock_has_the_first_one_that_suits_the_candidate(run_scenario, tmp_path: Path):
    file = tmp_path / "own.scenario.yaml"
    file.write_text(OWN_TIMERS, "utf-8")
    (result,) = run_scenario(file, "exec:reference")
    assert result.verdicts[0].sentence == "the server's own timers cannot be scaled"
    assert read_cell(result.file).header.clock == "scaled"
    other = tmp_path / "other.scenario.yaml"
    other.write_text(OWN_TIMERS.replace("kept-for-its-own-time", "kept-by-another"), "utf-8")
    (result,) = run_scenario(other, "reference")
    assert read_cell(result.file).header.clock == "virtual"
    with pytest.raises(CandidateError, match="--clock virtual: reference is a process of its own"):
        run_scenario(file, "exec:reference", clock="virtual")


def test_a_scenario_that_leaves_the_generation_open_has_one_of_the_description(run_scenario, tmp_path: Path):
    file, description = tmp_path / "own.scenario.yaml", tmp_path / "hub.yaml"
    file.write_text(OWN_TIMERS, "utf-8")
    description.write_text(
        "name: hub\nkind: exec\nclaims: [relay]\ngenerations: [ex2010]\nargv: ['{python}', '-V']\n", "utf-8"
    )
    (result,) = run_scenario(file, str(description))
    assert result.verdicts[0].sentence == "not described: the own-timers of hub"
    assert json.loads(plain(result.file).splitlines()[0])["generations"] == ["ex2010"]


ELSEWHERE = """\
name: mine
kind: remote
claims: [relay]
addresses: {frontend: {host: 192.0.2.7, port: 25}}
"""
NOT_ALLOWED = re.escape(
    'addresses.frontend is 192.0.2.7, which is not this machine; with allow_hosts=["192.0.2.7"] the harness connects to it'
)


def test_a_server_on_another_machine_is_started_only_when_allowed(
    mail_node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    description, entered = tmp_path / "mine.yaml", []
    description.write_text(ELSEWHERE, "utf-8")

    async def enter(world: World) -> World:
        entered.append(world)
        raise NodeError("mta1", "start", "entered")

    monkeypatch.setattr(World, "__aenter__", enter)
    for allowed in ([], ["127.0.0.1", "192.0.2.70"], "192.0.2.7"):
        with pytest.raises(CandidateError, match=NOT_ALLOWED):
            mail_node(str(description), allow_hosts=allowed)
    assert not entered
    with pytest.raises(NodeError, match="entered"):
        mail_node(str(description), allow_hosts=["192.0.2.8", "192.0.2.7"])


@pytest.mark.parametrize("word", ["{}", "mbx1={}"])
def test_a_scenario_runs_on_another_machine_only_when_allowed(
    run_scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
):
    file, description, executed = tmp_path / "own.scenario.yaml", tmp_path / "mine.yaml", []
    file.write_text(OWN_TIMERS, "utf-8")
    description.write_text(ELSEWHERE, "utf-8")

    async def execute(cell: Cell, *_: object) -> str:
        executed.append(cell.id)
        return cell.id

    monkeypatch.setattr("conformance.execute.execute", execute)
    candidate = word.format(description)
    for allowed in ([], ["127.0.0.1", "192.0.2.70"], "192.0.2.7"):
        with pytest.raises(CandidateError, match=NOT_ALLOWED):
            run_scenario(file, candidate, allow_hosts=allowed)
    assert not executed
    assert run_scenario(file, candidate, allow_hosts=["192.0.2.7"]) == tuple(executed)
    assert executed
