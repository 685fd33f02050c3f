"""The ahead-of-time cache of Java: it is used if it exists, built on request, and replaces the old one."""

import errno
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from conformance import paths
from conformance.spark.find_java import find_java_home, java_version
from conformance.spark.jvm_aot_cache import MIN_JAVA, AotCache, aot_cache_for, launch_arguments
from conformance.spark.session import open_session

MAKES = """#!/bin/sh
for argument do
    case $argument in
        -XX:AOTCache=*) printf '%s\\n' "$@" >"${argument#-XX:AOTCache=}" ;;
    esac
done
"""


def java_that(text: str, folder: Path) -> Path:
    java = folder / "java"
    java.write_text(text)
    java.chmod(0o755)
    return java


def test_java_gets_options_to_record_or_to_use_the_cache(tmp_path: Path) -> None:
    found = AotCache(tmp_path / "kept.aot", tmp_path / "loaded.config")
    assert found.options(brief=True, record=False) == ()
    assert found.options(brief=True, record=True)[:2] == ("-XX:AOTMode=record", f"-XX:AOTConfiguration={found.record}")
    found.file.touch()
    for brief in (True, False):
        options = found.options(brief=brief, record=False)
        assert found.options(brief=brief, record=True)[0] == "-XX:AOTMode=record"  # it is made anew
        assert options[0] == f"-XX:AOTCache={found.file}"
        assert ("-XX:-AOTReplayTraining" in options) is not brief


def test_the_cache_is_built_with_the_sessions_options_and_replaces_the_old_one(tmp_path: Path) -> None:
    found = aot_cache_for(java_that(MAKES, tmp_path), tmp_path / "cache", tmp_path)
    assert not found.build(tmp_path / "java", ["-Xmx2g"], "a.jar:b.jar")  # nothing was recorded
    found.record.touch()
    found.file.parent.mkdir(parents=True)
    (found.file.parent / "old.aot").touch()
    assert found.build(tmp_path / "java", ["-Xmx2g", "-XX:AOTMode=record"], "a.jar:b.jar")
    assert list(found.file.parent.iterdir()) == [found.file]
    words = found.file.read_text().splitlines()
    assert words[0] == "-Xmx2g"
    assert [word for word in words if word.startswith("-XX:AOTMode")] == ["-XX:AOTMode=create"]
    assert f"-XX:AOTConfiguration={found.record}" in words
    assert words[-2:] == ["-cp", "a.jar:b.jar"]


def test_the_record_may_lie_on_another_file_system_than_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.replace
    renamed: list[Path] = []

    def replace(self: Path, target: Path) -> Path:
        if tmp_path / "cache" not in self.parents:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        renamed.append(target)
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    found = aot_cache_for(java_that(MAKES, tmp_path), tmp_path / "cache", tmp_path)
    found.record.touch()
    assert found.build(tmp_path / "java", [], "")
    assert renamed == [found.file]
    assert list(found.file.parent.iterdir()) == [found.file]


@pytest.mark.parametrize("java", ["#!/bin/sh\n", f"{MAKES}exit 1\n"], ids=["makes no file", "fails over its file"])
def test_a_java_that_cannot_build_the_cache_leaves_the_old_one(java: str, tmp_path: Path) -> None:
    found = aot_cache_for(java_that(java, tmp_path), tmp_path / "cache", tmp_path)
    found.record.touch()
    found.file.parent.mkdir(parents=True)
    (found.file.parent / "old.aot").touch()
    assert not found.build(tmp_path / "java", [], "")
    assert [one.name for one in found.file.parent.iterdir()] == ["old.aot"]


@pytest.mark.spark
@pytest.mark.slow
def test_the_second_session_uses_the_cache_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java = find_java_home({}, paths.cache()) / "bin" / "java"
    if (java_version(java) or 0) < MIN_JAVA:
        pytest.skip(f"keeps nothing before Java {MIN_JAVA}")
    notices: list[str] = []
    with open_session("local[1]", record_classes=True, notify=notices.append) as session:
        assert session.range(3).count() == 3
    assert len(notices) == 2
    (kept,) = paths.cache().glob("spark-*/*.aot")
    with open_session("local[1]", notify=notices.append) as session:
        assert session.range(3).count() == 3
        assert f"-XX:AOTCache={kept}" in launch_arguments(session)[0]
    assert len(notices) == 2
    kept.write_bytes(b"no cache" * 1000)
    with open_session("local[1]", notify=notices.append) as session:
        assert session.range(3).count() == 3
    assert len(notices) == 3
    assert "the cache for Java is not used: The AOT cache has a bad magic number" in notices[-1]
    kept.rename(kept.with_name("of-another-spark.aot"))
    with open_session("local[1]", notify=notices.append):
        pass
    assert "the cache for Java is not used: it was made of another Java or Spark" in notices[-1]


def test_another_cache_or_an_error_of_java_is_a_reason_for_a_mismatch_and_a_warning_alone_is_none(
    tmp_path: Path,
) -> None:
    found = AotCache(tmp_path / "spark-1" / "kept.aot", tmp_path / "loaded.config")
    assert found.mismatch_reason() == ""
    found.file.parent.mkdir()
    (found.file.parent / "other.aot").touch()
    assert found.mismatch_reason() == "it was made of another Java or Spark"
    found.file.touch()
    assert found.mismatch_reason() == ""
    (option,) = (one for one in found.options(brief=True, record=False) if ":file=" in one)
    said = Path(option.partition(":file=")[2])
    said.write_text("[0.01s][warning][aot] Saved blob's name 'L' is different\n")
    assert found.mismatch_reason() == ""
    said.write_text("[0.01s][warning][aot] The AOT cache has been truncated.\n[0.01s][error  ][aot] Unable to map\n")
    assert found.mismatch_reason() == "The AOT cache has been truncated."
