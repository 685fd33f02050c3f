"""Contract 2: the keys of the configuration, the status file as the answer to a reload, and exit codes."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from conformance.candidates.description import Candidate
from conformance.nodes.commands import parse_output
from conformance.nodes.configuration import Contract2, Wiring, render
from conformance.nodes.contract import ConfigurationRefused, NodeError
from conformance.nodes.document import InspectDocument, NodeDocument, Status
from conformance.nodes.exec_node import ExecNode
from conformance.nodes.places import PortLeases
from conformance.nodes.readiness import MAX_STATUS_OCTETS, read_status
from conformance.scenarios.fixtures import load_topology
from conformance.topology import Topology
from tests.nodes import programs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "node-contract.md").read_text("utf-8")
EXAMPLES = [json.loads(text) for text in re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]

ANSWERS = programs.GREETS.replace(
    "    await asyncio.Event().wait()",
    """    def reload():
        document = json.load(open(sys.argv[1]))
        STATUS
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
    await asyncio.Event().wait()""",
)
WRITES = (  # in one step, as the contract has it
    'new = document["status_file"] + ".new"; file = open(new, "w"); file.write(TEXT); file.close(); '
    'import os; os.replace(new, document["status_file"])'
)
APPLIED = WRITES.replace("TEXT", 'json.dumps({"revision": document["revision"], "applied": True})')
REFUSED = WRITES.replace(
    "TEXT", 'json.dumps({"revision": document["revision"], "applied": False, "error": "transport.Bogus: unknown"})'
)


def rendered(topology: Topology, contract_2: Contract2 | None, *, server: int = 0, **more: Any) -> dict[str, Any]:
    """Return the configuration of one server of a topology, by default the first."""
    wiring = Wiring(listen=lambda server, listener: ("127.0.0.1", 2525), dial=lambda *pair: ("127.0.0.1", 2526))
    return render(
        topology, topology.servers[server], wiring, data_dir=Path("/n/data"), seed=1, contract_2=contract_2, **more
    )


def test_a_node_of_contract_1_gets_no_key_of_contract_2():
    topology = load_topology(ROOT / "fixtures/topologies/bifurcation.yaml").model_copy(
        update={"hub_sites": ("NewYork",)}
    )
    document, of_2 = rendered(topology, None), rendered(topology, Contract2(1.0, 1, Path("/n/status.json")))
    assert document["contract"] == 1
    assert set(of_2) - set(document) == {"scale", "revision", "status_file"}
    assert {key for site in document["sites"] for key in site} == {"name"}
    assert {key for site in of_2["sites"] for key in site} == {"name", "hub"}


@pytest.mark.parametrize("path", sorted((ROOT / "fixtures/topologies").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_configuration_of_contract_2_is_valid_under_the_published_schema(path: Path):
    topology, schema = load_topology(path), json.loads((ROOT / "docs/schema/node.json").read_text("utf-8"))
    for server in range(len(topology.servers)):
        document = rendered(topology, Contract2(60.0, 3, Path("/n/status/status.json")), server=server)
        Draft202012Validator(schema).validate(json.loads(json.dumps(document)))
        assert (document["scale"], document["revision"], document["status_file"]) == (60.0, 3, "/n/status/status.json")
        assert not Draft202012Validator(schema).is_valid(json.loads(json.dumps({**document, "revision": "3"})))


def test_the_names_of_servers_are_in_upper_case_on_request_but_not_that_in_the_key_name():
    topology = load_topology(ROOT / "fixtures/topologies/dag-and-2010-hub.yaml")
    document = rendered(topology.model_copy(update={"server_names": "upper"}), None)
    assert document["name"] == "mbx1"
    assert [peer["name"] for peer in document["peers"]] == ["MBX2", "HUB1", "submission"]
    assert {mailbox["server"] for mailbox in document["mailboxes"]} == {"MBX1", "MBX2", "HUB1"}
    hops = [hop["name"] for route in document["routes"] for hop in route["next_hops"]]
    assert hops == ["HUB1", "outside", "outside"]
    not_requested = rendered(topology, None)
    assert not_requested["name"] == "mbx1"
    hops = [hop["name"] for route in not_requested["routes"] for hop in route["next_hops"]]
    assert hops == ["hub1", "outside", "outside"]
    assert [peer["name"] for peer in not_requested["peers"]] == ["mbx2", "hub1", "submission"]
    assert {mailbox["server"] for mailbox in not_requested["mailboxes"]} == {"mbx1", "mbx2", "hub1"}


def test_without_defaults_a_configuration_has_only_what_topology_and_scenario_set():
    topology = load_topology(ROOT / "fixtures/topologies/cross-site-dag.yaml")
    first, *others = topology.servers
    first = first.model_copy(
        update={
            "transport": {"ShadowHeartbeatRetryCount": 5},
            "listeners": {"transport": {"connection_timeout": 120}},
        }
    )
    topology = topology.model_copy(
        update={
            "transport": {"MessageRetryInterval": 60},
            "servers": (first, *others),
            "hub_sites": ("London",),
        }
    )
    complete, document = (
        rendered(
            topology,
            Contract2(60.0, 1, Path("/n/status.json")),
            defaults=defaults,
            duration=lambda seconds: seconds / 60,
            changes={"ShadowHeartbeatFrequency": 120},
            listener_changes={"frontend": {"connection_inactivity_timeout": 30}},
        )
        for defaults in (True, False)
    )
    assert document["transport"] == {
        "MessageRetryInterval": 1,
        "ShadowHeartbeatRetryCount": 5,
        "ShadowHeartbeatFrequency": 2,
    }
    address = {"host": "127.0.0.1", "port": 2525}
    assert document["listeners"] == {
        "frontend": {**address, "connection_inactivity_timeout": 0.5},
        "transport": {**address, "connection_timeout": 2, "externally_secured": True},
        "delivery": address,
    }
    assert document["sites"] == [{"name": "NewYork"}, {"name": "London", "hub": True}]
    assert complete["transport"].items() > document["transport"].items(), "with defaults it has more"
    for listener, settings in document["listeners"].items():
        assert complete["listeners"][listener].items() > settings.items()
    assert complete["sites"] == [{"name": "NewYork", "hub": False}, {"name": "London", "hub": True}]
    NodeDocument.model_validate_json(json.dumps(document))


def test_a_configuration_of_contract_2_marks_hub_sites():
    topology = load_topology(ROOT / "fixtures/topologies/bifurcation.yaml").model_copy(
        update={"hub_sites": ("NewYork",)}
    )
    sites = rendered(topology, Contract2(1.0, 1, Path("/n/status.json")))["sites"]
    assert {site["name"]: site["hub"] for site in sites} == {
        site: site == "NewYork" for site in ("Chicago", "Atlanta", "NewYork", "London", "Dublin", "Madrid", "Paris")
    }


def test_the_json_examples_of_the_page_are_valid(tmp_path: Path):
    NodeDocument.model_validate_json(json.dumps(EXAMPLES[0]))
    (inspected,) = [example for example in EXAMPLES if "queues" in example]
    InspectDocument.model_validate_json(json.dumps(inspected))
    assert parse_output("mbx1", "inspect", json.dumps(inspected)) == inspected
    statuses = [example for example in EXAMPLES if "applied" in example]
    for status in statuses:
        (tmp_path / "status.json").write_text(json.dumps(status))
        assert read_status("mbx1", tmp_path / "status.json") == Status.model_validate(status)
    assert [status["applied"] for status in statuses] == [True, False]
    answers = [example for example in EXAMPLES[1:] if example != inspected and example not in statuses]
    assert [list(answer) for answer in answers] == [["redirected", "kept"], ["resubmitted"]]
    for name, answer in zip(("redirect-messages", "resubmit"), answers, strict=True):
        assert parse_output("mbx1", name, json.dumps(answer)) == answer


@pytest.fixture
def configuration(tmp_path: Path) -> Iterator[dict[str, Any]]:
    leases = PortLeases()
    yield {
        "listeners": {"frontend": {"host": "127.0.0.1", "port": leases.lease()}},
        "revision": 1,
        "status_file": str(tmp_path / "status" / "status.json"),
    }
    leases.release()


def candidate(program: str, **changes: object) -> Candidate:
    fields = {"name": "toy", "kind": "exec", "claims": ("relay",), "argv": ("{python}", "-c", program, "{config}")}
    return Candidate.model_validate({**fields, "contract": 2, "ready-within": 5, **changes})


def reloaded(one: Candidate, directory: Path, configuration: dict[str, Any]) -> None:
    async def steps() -> None:
        node = ExecNode("mbx1", one, directory)
        await node.start(configuration)
        try:
            await node.reload({**configuration, "revision": 2})
        finally:
            await node.close()

    asyncio.run(steps())


@pytest.mark.integration
def test_a_reload_is_answered_by_the_status_file(tmp_path: Path, configuration: dict[str, Any]):
    reloaded(candidate(ANSWERS.replace("STATUS", APPLIED)), tmp_path, configuration)
    assert json.loads(Path(configuration["status_file"]).read_text("utf-8")) == {"revision": 2, "applied": True}
    elsewhere = {"status_file": str(tmp_path / "refused" / "status" / "status.json")}
    with pytest.raises(ConfigurationRefused, match=r"transport\.Bogus: unknown"):
        reloaded(candidate(ANSWERS.replace("STATUS", REFUSED)), tmp_path / "refused", configuration | elsewhere)


@pytest.mark.integration
def test_the_second_process_of_a_server_answers_a_reload_in_a_status_file_of_its_own(
    tmp_path: Path, configuration: dict[str, Any]
):
    async def steps() -> None:
        program, directory = ANSWERS.replace("STATUS", APPLIED), tmp_path / "another"
        node = ExecNode("mbx1", candidate(program), directory, shares=tmp_path / "data")
        await node.start(configuration)
        try:
            await node.reload({**configuration, "revision": 2})
        finally:
            await node.close()
        assert json.loads((directory / "status" / "status.json").read_text("utf-8"))["revision"] == 2

    asyncio.run(steps())
    assert not Path(configuration["status_file"]).exists()


@pytest.mark.integration
@pytest.mark.parametrize("answer", [APPLIED, REFUSED], ids=["applied", "refused"])
def test_an_answer_to_an_earlier_revision_does_not_answer_a_reload(
    tmp_path: Path, configuration: dict[str, Any], answer: str
):
    stale = ANSWERS.replace("STATUS", answer.replace('document["revision"]', "1"))
    with pytest.raises(NodeError, match=r"no answer in its status file within 3 s"):
        reloaded(candidate(stale, **{"ready-within": 3}), tmp_path, configuration)
    assert json.loads(Path(configuration["status_file"]).read_text("utf-8"))["revision"] == 1


@pytest.mark.integration
@pytest.mark.parametrize(("code", "expected"), [(0, None), (2, ConfigurationRefused), (3, NodeError)])
def test_the_exit_code_of_a_reload_command_answers_the_reload(
    tmp_path: Path, configuration: dict[str, Any], code: int, expected: type[NodeError] | None
):
    words = ["{python}", "-c", f"import sys; print('Bogus: unknown', file=sys.stderr); sys.exit({code})"]
    one = candidate(programs.GREETS, commands={"reload": words})
    if expected is None:
        reloaded(one, tmp_path, configuration)
        return
    with pytest.raises(NodeError, match="Bogus: unknown") as raised:
        reloaded(one, tmp_path, configuration)
    assert isinstance(raised.value, ConfigurationRefused) is (expected is ConfigurationRefused)


@pytest.mark.integration
def test_a_reload_does_not_wait_for_a_server_that_is_configured_by_templates(
    tmp_path: Path, configuration: dict[str, Any]
):
    program = ANSWERS.replace("STATUS", "pass")
    one = candidate(program, argv=("{python}", "-c", program, "{directory}/node.json"))
    reloaded(one, tmp_path, configuration)
    reads_the_document = candidate(program, **{"ready-within": 3})
    with pytest.raises(NodeError, match=r"no answer in its status file within 3 s"):
        reloaded(reads_the_document, tmp_path / "waited-for", configuration)


def test_a_status_file_that_is_a_link_too_large_or_invalid_is_refused(tmp_path: Path):
    path, valid = tmp_path / "status.json", '{"revision": 1, "applied": true}'
    assert read_status("mbx1", path) is None
    path.write_text(valid.ljust(MAX_STATUS_OCTETS))
    assert read_status("mbx1", path) == Status(revision=1, applied=True), "it is as large as it may be"
    path.write_text(valid.ljust(MAX_STATUS_OCTETS + 1))
    with pytest.raises(NodeError, match="at most 4096 octets"):
        read_status("mbx1", path)
    path.write_text('{"revision": 1, "applied": "yes"}')
    with pytest.raises(NodeError, match="applied: Input should be a valid boolean"):
        read_status("mbx1", path)
    path.write_text("applied")
    with pytest.raises(NodeError, match="Invalid JSON"):
        read_status("mbx1", path)
    path.unlink()
    path.mkdir()
    with pytest.raises(NodeError, match="not a regular file"):
        read_status("mbx1", path)
    path.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(valid)
    path.symlink_to(elsewhere)
    with pytest.raises(NodeError, match="cannot be read"):
        read_status("mbx1", path)
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    (folder / "status.json").write_text(valid)
    link.symlink_to(folder)
    assert read_status("mbx1", folder / "status.json") == Status(revision=1, applied=True)
    with pytest.raises(NodeError, match="cannot be read"):
        read_status("mbx1", link / "status.json")


@pytest.mark.integration
def test_the_reference_as_a_program_answers_in_its_status_file(tmp_path: Path):
    topology = load_topology(ROOT / "fixtures/topologies/single-server.yaml")
    leases = PortLeases()
    ports = {listener: leases.lease() for listener in ("frontend", "transport", "delivery")}
    wiring = Wiring(listen=lambda server, listener: ("127.0.0.1", ports[listener]), dial=lambda *pair: ("127.0.0.1", 9))

    def document(revision: int, **changes: object) -> dict[str, Any]:
        contract_2 = Contract2(1.0, revision, tmp_path / "status" / "status.json")
        return render(
            topology, topology.servers[0], wiring, data_dir=tmp_path / "data", seed=1, changes=changes,
            contract_2=contract_2,
        )  # fmt: skip

    argv = (sys.executable, "-m", "conformance.reference", "--config", "{config}")

    async def steps() -> None:
        node = ExecNode("mbx1", candidate("", argv=argv), tmp_path)
        await node.start(document(1))
        try:
            with pytest.raises(ConfigurationRefused, match="MessageRetryInterval"):
                await node.reload(document(2, MessageRetryInterval=-1))
            await node.reload(document(3, MessageRetryInterval=5))
        finally:
            await node.close()

    try:
        asyncio.run(steps())
    finally:
        leases.release()
    assert json.loads((tmp_path / "status/status.json").read_text()) == {"revision": 3, "applied": True}
