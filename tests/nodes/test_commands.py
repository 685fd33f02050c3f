"""The output of a node's commands is limited, and output that is not the contract's JSON is an error of the node."""

import asyncio
import json
import os
import select
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from conformance.candidates.description import Candidate
from conformance.nodes import commands
from conformance.nodes.commands import parse_output, run_command
from conformance.nodes.contract import NodeError
from conformance.nodes.document import InspectDocument
from conformance.nodes.kinds import node_class


def test_a_command_that_prints_more_than_the_limit_is_an_error_of_the_node(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(commands, "MAX_OUTPUT", 1000)

    def output(octets: int) -> str:
        program = f"import sys; sys.stdout.write('x' * {octets}); sys.stderr.write('y' * 5000)"
        return asyncio.run(run_command("mbx1", "inspect", [sys.executable, "-S", "-c", program], within=60))

    assert output(1000) == "x" * 1000
    with pytest.raises(NodeError, match="mbx1: inspect: .* printed more than 1000 octets"):
        output(1001)


def ends(pid: int) -> bool:
    """Wait for the end of a process, which may be a zombie then; return False if it has not ended after half a minute."""
    try:
        end = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([end], [], [], 30)[0])
    finally:
        os.close(end)


CLOSES_ITS_OUTPUT = """
import os, time
open(os.environ['PIDS'], 'w').write(str(os.getpid()))
os.close(1); os.close(2)
time.sleep(60)
open(os.environ['PIDS'] + '-end', 'w').close()
"""
HAS_A_CHILD = """
import os, time
if child := os.fork():
    open(os.environ['PIDS'], 'w').write(f"{os.getpid()} {child}")
time.sleep(60)
open(os.environ['PIDS'] + '-end', 'w').close()
"""
LEAVES_A_CHILD = """
import os, time
if child := os.fork():
    open(os.environ['PIDS'], 'w').write(str(child))
else:
    time.sleep(60)
    open(os.environ['PIDS'] + '-end', 'w').close()
"""


@pytest.mark.parametrize("program", [CLOSES_ITS_OUTPUT, HAS_A_CHILD, LEAVES_A_CHILD])
def test_a_command_that_takes_too_long_is_killed_with_its_process_group(program: str, tmp_path: Path):
    environment = {**os.environ, "PIDS": str(tmp_path / "pids")}
    argv = [sys.executable, "-S", "-c", program]
    with pytest.raises(NodeError, match="mbx1: inspect: .* had not ended after 2 s"):
        asyncio.run(run_command("mbx1", "inspect", argv, within=2, environment=environment))
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == (2 if program is HAS_A_CHILD else 1)
    assert all(ends(pid) for pid in pids)
    assert not (tmp_path / "pids-end").exists(), "it was killed, and did not end on its own"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "its output is not JSON"),
        ('{"queues": NaN}', "its output is not JSON"),
        ('{"queues": "\\ud800"}', "its output is not JSON"),
        ("{", "its output is not JSON"),
        ("", "what it printed cannot be read: Input should be"),
        ("[]", "what it printed cannot be read: Input should be"),
        ("{}", "what it printed cannot be read: queues: Field required"),
        ('{"queues": {}}', "what it printed cannot be read: queues: Input should be a valid list"),
        ('{"queues": [{"items": []}]}', "what it printed cannot be read: queues.0.kind: Field required"),
        ('{"queues": [{"kind": 5, "items": []}]}', "what it printed cannot be read: queues.0.kind: Input should be"),
        (
            '{"queues": [{"kind": "shadow", "next_hop": ["mbx1"], "items": []}]}',
            "what it printed cannot be read: queues.0.next_hop: Input should be",
        ),
        ('{"queues": [{"kind": "shadow", "items": [5]}]}', "what it printed cannot be read: queues.0.items.0: Input"),
        ('{"queues": [], "delivered_to": {}}', "what it printed cannot be read: delivered_to"),
    ],
)
def test_an_unreadable_inspection_is_an_error_of_the_node(text: str, said: str):
    with pytest.raises(NodeError) as caught:
        parse_output("mbx1", "inspect", text)
    assert str(caught.value).startswith(f"mbx1: inspect: {said}")
    assert len(str(caught.value)) < 1200


def test_an_inspection_may_have_fewer_and_more_fields_than_the_contract():
    """`queues` is required, and `delivered_to` may be a list of rows."""
    item = {"message_id": "a@b", "shadow_id": None, "primary": None, "recipients": ["c@d"], "since": 3.0}
    queue = {"queue": "q", "kind": "shadow", "next_hop": None, "items": [item]}
    contract = {"database": "1", "queues": [queue], "delivered_to": 2}
    InspectDocument.model_validate_json(json.dumps(contract))
    fewer = {"queues": [{"kind": "shadow", "items": [{"message_id": "a@b"}]}]}
    more = contract | {"queues": [queue | {"items": [item | {"age": 3}], "x": 1}], "delivered_to": [1, 2], "y": 2}
    for said in (contract, fewer, more):
        assert parse_output("mbx1", "inspect", json.dumps(said)) == said
    for said in (fewer, more):
        with pytest.raises(ValidationError):
            InspectDocument.model_validate_json(json.dumps(said))


@pytest.mark.parametrize(
    ("printed", "pattern", "version"),
    [("x" * 100_000, "(x+)", "x" * 200), ("1.2.3", "(y)?1.2", "1.2"), ("1.2.3", "(y+)", "0.9"), ("", "()", "0.9")],
)
def test_a_version_is_short_and_never_empty(printed: str, pattern: str, version: str):
    candidate = Candidate.model_validate(
        {
            "name": "mine",
            "kind": "exec",
            "claims": ["relay"],
            "argv": ["true"],
            "version": "0.9",
            "version-pattern": pattern,
            "commands": {"version": [sys.executable, "-c", f"print({printed!r})"]},
        }
    )
    assert asyncio.run(node_class(candidate.kind).version(candidate)) == version
