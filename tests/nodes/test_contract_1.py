"""Contract 1, the contract of a description that names none, is still supported."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.candidates.description import Candidate, read_description
from conformance.nodes.contract import ConfigurationRefused, NodeError
from conformance.nodes.exec_node import ExecNode
from conformance.nodes.places import PortLeases
from conformance.nodes.readiness import _wait_for_log_line
from tests.nodes import programs
from tests.suite.helpers import conformance_command

SAYS = programs.GREETS.replace(
    "    await asyncio.Event().wait()",
    """    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: print("WORDS", flush=True))
    await asyncio.Event().wait()""",
)

NEITHER = """name: mine
kind: exec
claims: [relay]
listeners: [frontend]
ready-within: 10
files:
  serve.py: |
    import asyncio, json, sys
    from aiosmtpd.controller import UnthreadedController
    from aiosmtpd.handlers import Proxy
    given = json.load(open(sys.argv[1]))
    new = {"scale", "revision", "status_file"} & set(given) or any("hub" in site for site in given["sites"])
    if given["contract"] != 1 or new:
        sys.exit("this is not contract 1")
    listener, (hop,) = given["listeners"]["frontend"], [one for one in given["routes"] if one["domain"] == "*"]
    loop = asyncio.new_event_loop()
    proxy = Proxy(*hop["next_hops"][0]["dial"])
    UnthreadedController(proxy, listener["host"], listener["port"], loop=loop).begin()
    loop.run_forever()
argv: ["{python}", "{directory}/serve.py", "{config}"]
"""


def test_a_description_that_names_no_contract_has_contract_1(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(NEITHER, "utf-8")
    assert read_description(tmp_path / "mine.yaml").contract == 1
    (tmp_path / "mine.yaml").write_text(NEITHER + "contract: 2\n", "utf-8")
    assert read_description(tmp_path / "mine.yaml").contract == 2, "this one names a contract"


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize(("named", "code"), [("", 0), ("contract: 1\n", 0), ("contract: 2\n", 1)])
def test_a_server_of_contract_1_gets_a_configuration_of_contract_1(tmp_path: Path, named: str, code: int):
    (tmp_path / "mine.yaml").write_text(NEITHER + named, "utf-8")
    checked = conformance_command("candidate", "check", "mine.yaml", cwd=tmp_path)
    assert checked.returncode == code, checked.stdout + checked.stderr
    assert ("this is not contract 1" in checked.stdout) is (code == 1)
    assert ("ok         claim relay" in checked.stdout) is (code == 0)


@pytest.fixture
def configuration() -> Iterator[dict[str, Any]]:
    leases = PortLeases()
    yield {"listeners": {"frontend": {"host": "127.0.0.1", "port": leases.lease()}}}
    leases.release()


def reloaded(words: str, directory: Path, configuration: dict[str, Any]) -> None:
    argv = ("{python}", "-c", SAYS.replace("WORDS", words), "{config}")
    fields = {"name": "toy", "kind": "exec", "claims": ("relay",), "argv": argv, "ready-within": 3}

    async def steps() -> None:
        node = ExecNode("mbx1", Candidate.model_validate(fields), directory)
        await node.start(configuration)
        with node.log.open("a", encoding="utf-8") as log:
            log.write("the first configuration was read\n")
        try:
            await node.reload(configuration)
        finally:
            await node.close()

    asyncio.run(steps())


@pytest.mark.integration
def test_a_later_line_of_the_log_answers_a_reload(tmp_path: Path, configuration: dict[str, Any]):
    reloaded("the new configuration is in force", tmp_path / "applied", configuration)
    with pytest.raises(ConfigurationRefused, match="Bogus: unknown"):
        reloaded("configuration refused: Bogus: unknown", tmp_path / "refused", configuration)
    with pytest.raises(NodeError, match="no answer in its log within 3 s"):
        reloaded("what was that", tmp_path / "silent", configuration)


class LogInTwoParts:
    """A log whose line is written in two parts."""

    def __init__(self) -> None:
        self.texts = ["the new configuration", "the new configuration is refused: Bogus\n"]

    def read(self, offset: int, size: int) -> str:
        return self.texts.pop(0)


def test_a_line_of_the_log_counts_when_it_has_ended():
    log = LogInTwoParts()
    with pytest.raises(ConfigurationRefused, match="Bogus"):
        asyncio.run(_wait_for_log_line("mbx1", log, 0))  # type: ignore[arg-type]
    assert log.texts == []
