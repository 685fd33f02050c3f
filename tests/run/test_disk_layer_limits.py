"""A cell whose server does what the disk layer cannot see is not applicable, with the reason."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from conformance import paths
from conformance.nodes.disks import layer
from conformance.results.reader import read_run
from conformance.verdicts import Outcome
from tests.run.spooling import SERVER
from tests.suite.helpers import conformance_command

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(layer.unavailable_reason()), reason=layer.unavailable_reason() or "-"),
]

DOES = {
    "static": ("import subprocess; subprocess.run(['{here}/static'])", "static is linked statically"),
    "setuid": ("import subprocess; subprocess.run(['{here}/setuid'])", "setuid is setuid"),
    "direct": ("os.close(os.open(msg, os.O_RDONLY | os.O_DIRECT))", "is opened with O_DIRECT"),
    "uring": ("import ctypes; ctypes.CDLL(None).syscall(425, 8, ctypes.create_string_buffer(120))", "io_uring is used"),
    "nothing": ("pass", ""),
}
if os.geteuid() != 0:
    del DOES["setuid"]  # it takes root to give a file away
"""What the server does after it has stored a message, and the reason in the verdict ("": the cell passes)."""
PLACES = ("{data}", "{listen.frontend}", "{next_hop.host}", "{next_hop.port}")


@pytest.mark.long
def test_operations_that_the_layer_does_not_see_make_the_cell_not_applicable(tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text("int main(void) { return 0; }\n")
    for name, flags in (("static", ["-static"]), ("setuid", [])):
        subprocess.run(["cc", *flags, "-o", tmp_path / name, tmp_path / "program.c"], check=True)
    if "setuid" in DOES:
        os.chown(tmp_path / "setuid", 65534, 65534)
        (tmp_path / "setuid").chmod(0o4755)
    for name, (does, _) in DOES.items():
        keeps = SERVER.replace("    sync(data)\n", f"    sync(data)\n    {does.replace('{here}', str(tmp_path))}\n")
        assert keeps != SERVER
        (tmp_path / f"{name}.py").write_text(keeps)
        argv = ["{python}", "{here}/" + f"{name}.py", *PLACES]
        described = {"name": name, "kind": "exec", "claims": ["relay"], "argv": argv, "listeners": ["frontend"]}
        (tmp_path / f"{name}.yaml").write_text(json.dumps(described))
    words = [word for name in DOES for word in ("--candidate", f"{name}.yaml")]
    cell = f"{paths.corpus() / 'faults/disks.scenario.yaml'}::acknowledged-means-synced"
    ran = conformance_command(
        "run", cell, "-k", "messages=1", *words, "--disk", "layer", "--cells", "5", "--run-dir", "run", cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = {
        one.header.candidate: one for one in read_run(tmp_path / "run").cells() if one.header.axes["messages"] == "1"
    }
    assert {name: one.footer and one.footer.outcome for name, one in found.items()} == {
        name: Outcome.NOT_APPLICABLE if why else Outcome.PASS for name, (_, why) in DOES.items()
    }
    for name, (_, why) in DOES.items():
        assert not why or any(why in verdict.sentence for verdict in found[name].verdicts), name
