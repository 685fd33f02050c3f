"""`conformance candidate`: `new` prints a valid description, and `check` tries each claim of a server."""

import subprocess
from pathlib import Path
from typing import get_args

import pytest

from conformance.candidates.description import REFERENCE, read_description
from conformance.candidates.fields import Claim
from conformance.commands.candidate import CheckLine, check, read_probes
from tests.nodes import programs
from tests.suite.helpers import conformance_command

pytestmark = pytest.mark.integration

MINE = "name: mine\nkind: exec\nclaims: [relay]\nlisteners: [frontend]\nready-within: 10\n"


def command(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return conformance_command("candidate", *words, cwd=cwd)


def check_of(tmp_path: Path, text: str) -> list[CheckLine]:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE + text, "utf-8")
    return list(check(read_description(path)))


@pytest.mark.long
@pytest.mark.timed
def test_a_new_description_is_valid_and_its_server_relays(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(command("new", cwd=tmp_path).stdout, "utf-8")
    checked = command("check", "mine.yaml", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "ok         claim relay" in checked.stdout


@pytest.mark.long
@pytest.mark.timed  # under load the harness is late, so that nothing is judged
def test_the_claim_relay_is_missing_for_a_server_that_passes_no_mail_on(tmp_path: Path):
    sink = '[aiosmtpd, -n, -l, "127.0.0.1:{listen.frontend}", -c, aiosmtpd.handlers.Sink]'
    lines = check_of(tmp_path, f'argv: ["{{python}}", -m, {sink[1:]}\n')
    (relay,) = [line for line in lines if line.subject == "claim relay"]
    assert relay.state == "missing"
    assert "0 copies reached victor@outside.test" in relay.detail


def test_a_server_that_does_not_start_is_reported_with_its_own_error_message(tmp_path: Path):
    program = programs.LEAVES_AT_ONCE.replace("'", "''")
    lines = check_of(tmp_path, f"argv: [\"{{python}}\", -c, '{program}']\n")
    assert lines[-1].state == "missing"
    assert "no licence file" in lines[-1].detail


DIES_AFTER_DELIVERY = """files:
  serve.py: |
    import asyncio, os
    from aiosmtpd.controller import UnthreadedController
    from aiosmtpd.handlers import Proxy
    {% set door = node.listeners.frontend %}
    {% set hop = (node.routes | selectattr("domain", "equalto", "*") | first).next_hops[0] %}
    class Brittle(Proxy):
        async def handle_DATA(self, server, session, envelope):
            reply = await super().handle_DATA(server, session, envelope)
            loop.call_later(0.1, os._exit, 3)
            return reply
    loop = asyncio.new_event_loop()
    controller = UnthreadedController(Brittle("127.0.0.1", {{ hop.dial[1] }}), "127.0.0.1", {{ door.port }}, loop=loop)
    controller.begin()
    loop.run_forever()
argv: ["{python}", "{directory}/serve.py"]
"""


RELAYS = DIES_AFTER_DELIVERY.replace("            loop.call_later(0.1, os._exit, 3)\n", "")
FAILING_COMMANDS = """commands:
  version: ["{python}", -c, "import sys; print('no such option', file=sys.stderr); sys.exit(4)"]
  inspect: ["{python}", -c, "import sys; print('cannot look', file=sys.stderr); sys.exit(5)"]
"""


@pytest.mark.long
def test_a_claim_that_cannot_be_judged_ends_the_check_with_code_3(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(MINE + DIES_AFTER_DELIVERY, "utf-8")
    checked = command("check", "mine.yaml", cwd=tmp_path)
    assert checked.returncode == 3, checked.stdout
    assert "NOT JUDGED claim relay: mta1 exited unexpectedly: it exited on its own with exit code 3" in checked.stdout


def test_a_missing_program_is_reported(tmp_path: Path):
    (line,) = check_of(tmp_path, "argv: [nothing]\nprograms: [nothing-of-that-name]\n")
    assert line == CheckLine("installed", "missing", "nothing-of-that-name is not installed")


def test_an_invalid_description_ends_the_check_with_code_2(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(MINE, "utf-8")
    checked = command("check", "mine.yaml", cwd=tmp_path)
    assert checked.returncode == 2
    assert "the kind exec needs 'argv'" in checked.stderr


def test_every_claim_has_a_probe_and_the_reference_passes_each():
    assert set(read_probes()) == set(get_args(Claim))
    lines = list(check(REFERENCE))
    assert {line.subject: line.state for line in lines if line.state != "ok"} == {"version": "information"}
    assert [line.subject for line in lines] == ["version", *(f"claim {claim}" for claim in read_probes())]


def test_a_claim_whose_probe_needs_an_unclaimed_command_is_not_judged():
    claims = ("relay", "safety-net")
    lines = {line.subject: line for line in check(REFERENCE.model_copy(update={"claims": claims}))}
    assert lines["claim relay"].state == "ok"
    assert lines["claim safety-net"] == CheckLine(
        "claim safety-net", "not judged", "it cannot be tried: not claimed: reference: inspect"
    )


def test_an_unknown_placeholder_is_refused_before_anything_is_started(tmp_path: Path):
    asked = f"commands: {{version: [touch, {tmp_path}/started]}}\n"  # the check asks for the version first
    description = MINE + asked + f'argv: [touch, {tmp_path}/started, "{{confg}}"]\n'
    (tmp_path / "mine.yaml").write_text(description, "utf-8")
    checked = command("check", "mine.yaml", cwd=tmp_path)
    assert checked.returncode == 2
    assert "mine.yaml: argv[2]: '{confg}': unknown placeholder 'confg' (did you mean 'config'?)" in checked.stderr
    assert not (tmp_path / "started").exists()
    (tmp_path / "mine.yaml").write_text(description.replace("confg", "config"), "utf-8")
    assert command("check", "mine.yaml", cwd=tmp_path).returncode == 1
    assert (tmp_path / "started").exists(), "with a known placeholder it is started"


@pytest.mark.long
def test_a_command_that_failed_is_named_with_its_exit_code(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(
        MINE.replace("[relay]", "[relay, inspect]") + RELAYS + FAILING_COMMANDS, "utf-8"
    )
    checked = command("check", "mine.yaml", cwd=tmp_path)
    assert checked.returncode == 1, checked.stdout
    assert "MISSING    version: the command 'version' failed: exit code 4: no such option" in checked.stdout
    assert "inspect: exit code 5: cannot look" in checked.stdout
