"""Programs that would not load a preloaded library are found before they are started."""

from pathlib import Path

import pytest

from conformance.nodes.preloading import preload_obstacle


@pytest.mark.parametrize("line", ["#!", "#!  ", "#!/no/such/interpreter", "#! /bin/sh"])
def test_a_script_is_no_obstacle_unless_its_interpreter_is_one(tmp_path: Path, line: str) -> None:
    script = tmp_path / "script"
    script.write_text(f"{line}\n")
    script.chmod(0o755)
    assert preload_obstacle(str(script)) is None
    interpreter = tmp_path / "interpreter"
    interpreter.write_bytes(b"\x7fELF\2".ljust(64, b"\0"))  # an ELF file of 64 bits without a dynamic loader
    interpreter.chmod(0o755)
    script.write_text(f"#!{interpreter} -x\n")
    assert preload_obstacle(str(script)) == (interpreter, "static")
