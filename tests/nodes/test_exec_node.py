"""The exec kind with misbehaving programs: each gives a clear error and leaves no process."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from conformance.candidates.description import Candidate
from conformance.nodes import cgroups, guard
from conformance.nodes.contract import ConfigurationRefused, NodeError, Unsupported
from conformance.nodes.exec_node import ExecNode
from conformance.nodes.places import PortLeases
from conformance.run.shifted.shim_library import CannotShift
from tests.nodes import programs

pytestmark = pytest.mark.integration


def candidate(program: str, **changes: object) -> Candidate:
    fields = {"name": "toy", "kind": "exec", "claims": ("relay",), "argv": ("{python}", "-c", program, "{config}")}
    return Candidate.model_validate({**fields, "ready-within": 5, "stop-within": 1, **changes})


@pytest.fixture
def configuration():
    leases = PortLeases()
    yield {"listeners": {"frontend": {"host": "127.0.0.1", "port": leases.lease()}}}
    leases.release()


def processes_of(directory: Path) -> list[psutil.Process]:
    """Return this process's children, and all processes whose command line has a path below a directory."""
    here = [one for one in psutil.process_iter(["cmdline"]) if str(directory) in " ".join(one.info["cmdline"] or ())]
    return [*psutil.Process().children(recursive=True), *here]


async def start_and_close(node: ExecNode, configuration: dict) -> None:
    """Start a node and close it; check that a start that fails leaves no process, before it is closed."""
    try:
        await node.start(configuration)
    except NodeError:
        assert processes_of(node.log.parent) == []
        raise
    finally:
        await node.close()


def test_a_well_behaved_node_starts_stops_and_leaves_no_process(tmp_path: Path, configuration: dict):
    async def steps() -> int:
        node = ExecNode("mbx1", candidate(programs.GREETS), tmp_path)
        await node.start(configuration)
        assert len(set(processes_of(tmp_path))) >= 2, "the guard and the node"
        code = await node.stop()
        assert processes_of(tmp_path) == [], "before the end of this program's event loop, which ends its children"
        return code

    assert asyncio.run(steps()) == 0


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (programs.LEAVES_AT_ONCE, "exit code 3: no licence file"),
        (programs.SPEAKS_HTTP, "in place of a 220 greeting"),
    ],
)
def test_a_node_that_does_not_start_is_reported_and_ended(tmp_path: Path, configuration: dict, program: str, said: str):
    with pytest.raises(NodeError, match=said) as raised:
        asyncio.run(start_and_close(ExecNode("mbx1", candidate(program), tmp_path), configuration))
    assert not isinstance(raised.value, ConfigurationRefused)
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("program", [programs.NEVER_LISTENS, programs.SAYS_NOTHING])
def test_a_node_that_never_answers_is_reported_after_the_time_limit(tmp_path: Path, configuration: dict, program: str):
    node = ExecNode("mbx1", candidate(program, **{"ready-within": 0.5}), tmp_path)
    began = time.monotonic()
    with pytest.raises(NodeError, match=r"frontend on 127.0.0.1:\d+ gave no greeting within 0.5 s"):
        asyncio.run(start_and_close(node, configuration))
    assert time.monotonic() - began >= 0.5
    assert processes_of(tmp_path) == []


def test_a_refused_configuration_has_its_own_error_that_names_the_parameter(tmp_path: Path, configuration: dict):
    with pytest.raises(ConfigurationRefused, match=r"transport\.Bogus: unknown parameter"):
        asyncio.run(start_and_close(ExecNode("mbx1", candidate(programs.REFUSES), tmp_path), configuration))


def test_a_node_that_ignores_sigterm_is_killed_and_reported(tmp_path: Path, configuration: dict):
    async def steps() -> None:
        node = ExecNode("mbx1", candidate(programs.IGNORES_SIGTERM), tmp_path)
        await node.start(configuration)
        with pytest.raises(NodeError, match="did not exit within 1 s of SIGTERM"):
            await node.stop()
        assert processes_of(tmp_path) == [], "before the end of this program's event loop, which ends its children"

    asyncio.run(steps())


def test_kill_ends_a_process_that_has_daemonised_itself(tmp_path: Path, configuration: dict):
    async def steps() -> None:
        node = ExecNode("mbx1", candidate(programs.DAEMONISES), tmp_path)
        await node.start(configuration)
        grandchild = int((tmp_path / "node.json.grandchild").read_text())
        assert os.getsid(grandchild) != os.getsid(node.guard_pid or 0), "it has a session of its own"
        await node.kill()
        assert not psutil.pid_exists(grandchild)

    asyncio.run(steps())


def test_a_node_that_is_killed_by_others_has_failed(tmp_path: Path, configuration: dict):
    async def steps() -> str | None:
        node = ExecNode("mbx1", candidate(programs.GREETS), tmp_path)
        await node.start(configuration)
        await node.kill()
        assert node.failure is None, "the harness killed it"
        await node.start(configuration)
        victim = psutil.Process().children(recursive=True)[-1]
        victim.kill()
        await node._ended.wait()
        failure = node.failure
        await node.close()
        return failure

    assert "killed by SIGKILL, which the harness did not send" in (asyncio.run(steps()) or "")


def test_a_command_that_the_description_lacks_is_unsupported(tmp_path: Path, configuration: dict):
    async def steps() -> None:
        node = ExecNode("mbx1", candidate(programs.GREETS), tmp_path)
        await node.start(configuration)
        try:
            await node.command("inspect")
        finally:
            await node.close()

    with pytest.raises(Unsupported, match="inspect: the candidate's description has no such command"):
        asyncio.run(steps())


def test_guard_and_node_end_when_the_harness_is_killed(tmp_path: Path):
    pids = tmp_path / "pids"
    child = f"import os,time; open({str(pids)!r},'w').write(str(os.getpid())); time.sleep(3600)"
    harness = (
        "import subprocess,sys,time\n"
        f"p=subprocess.Popen([sys.executable,{guard.__file__!r},sys.executable,'-c',{child!r}],stdin=subprocess.PIPE)\n"
        "print(p.pid,flush=True); time.sleep(3600)"
    )
    with subprocess.Popen([sys.executable, "-c", harness], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        guard_process = psutil.Process(int(parent.stdout.readline()))
        while not (pids.exists() and pids.read_text()):
            os.sched_yield()
        node = psutil.Process(int(pids.read_text()))
        os.kill(parent.pid, signal.SIGKILL)
    psutil.wait_procs([guard_process, node], timeout=10)
    assert not guard_process.is_running()
    assert not node.is_running()


@pytest.mark.parametrize(("codes", "returned"), [([0], 143), ([0, 143], 0), ([143], 0), ([143, 7], 0)])
def test_a_stop_may_exit_with_any_code_that_the_description_lists(
    tmp_path: Path, configuration: dict, codes: list[int], returned: int
):
    program = programs.GREETS.replace("asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, sys.exit, 0)", "")
    assert program != programs.GREETS

    async def steps() -> int:
        node = ExecNode("mbx1", candidate(program, **{"exit-codes": codes}), tmp_path)
        await node.start(configuration)
        return await node.stop()

    assert asyncio.run(steps()) == returned


def test_a_node_whose_guard_cannot_be_started_leaves_no_cgroup(
    tmp_path: Path, configuration: dict, monkeypatch: pytest.MonkeyPatch
):
    made: list[cgroups.Cgroup] = []
    make_cgroup = cgroups.make_cgroup

    def noted(limits: cgroups.Limits) -> cgroups.Cgroup | None:
        if (group := make_cgroup(limits)) is not None:
            assert all(map(os.path.isdir, group.paths))
            made.append(group)
        return group

    monkeypatch.setattr(cgroups, "make_cgroup", noted)

    class Clock:
        """A clock that no program can be given."""

        def command_prefix(self, program: str, environment: dict[str, str]) -> list[str]:
            raise CannotShift(f"{program} is linked statically")

    async def steps() -> None:
        node = ExecNode("mbx1", candidate(programs.GREETS), tmp_path, clock=Clock())
        with pytest.raises(CannotShift):
            await node.start(configuration)

    asyncio.run(steps())
    if not made:
        pytest.skip("no cgroup can be made here")
    assert [path for group in made for path in group.paths if Path(path).exists()] == []


def second_process(tmp_path: Path) -> tuple[ExecNode, Path]:
    """Return the second process of a server, not started, and the data directory of the first."""
    data = tmp_path / "mta1" / "data"
    data.mkdir(parents=True)
    return ExecNode("mta1", candidate(programs.GREETS), tmp_path / "mta1-another", shares=data), data


def test_a_second_process_is_started_again_on_the_data_of_the_first_and_wipes_them(tmp_path: Path, configuration: dict):
    async def steps() -> None:
        node, data = second_process(tmp_path)
        try:
            for _ in range(2):
                await node.start(configuration)
                assert (tmp_path / "mta1-another" / "data").resolve() == data
                await node.kill()
            (data / "queue").write_text("a message", "utf-8")
            await node.wipe()
            assert list(data.iterdir()) == []
            await node.start(configuration)
        finally:
            await node.close()

    asyncio.run(steps())


@pytest.mark.parametrize("other", ["link", "directory", "file"])
def test_a_second_process_does_not_start_where_the_server_has_replaced_the_link_to_the_data(
    tmp_path: Path, configuration: dict, other: str
):
    async def steps() -> None:
        node, _ = second_process(tmp_path)
        await node.start(configuration)
        await node.kill()
        link = tmp_path / "mta1-another" / "data"
        link.unlink()
        if other == "link":
            link.symlink_to(tmp_path)
        elif other == "directory":
            link.mkdir()
        else:
            link.write_text("", "utf-8")
        with pytest.raises(NodeError, match="the server may have put something else there"):
            await node.start(configuration)
        assert (link.is_symlink(), link.is_dir()) == (other == "link", other != "file"), "it is left as it was"
        await node.close()

    asyncio.run(steps())
