"""What the JUnit file says: of each cell its name and what it takes to compare it, of the whole run the causes of its violations."""

import hashlib
from pathlib import Path, PurePosixPath

import pytest
from _pytest.junitxml import LogXML, xml_key  # there is no public name for it outside a test

from conformance.report.cell_view import CellView
from conformance.report.root_causes import find_root_causes
from conformance.report.run_summary import read_run_summary
from conformance.report.terminal import is_users_file
from conformance.results.layout import RUN_FILE
from conformance.results.reader import read_header
from conformance.scenarios.loader import SUFFIX
from conformance.suite.run_directory import DIRECTORY

_SCENARIO, _FILE, _CANDIDATE = "scenario", "file", "candidate"
"""Properties of a test case by which its name, its class and its place are made."""


def properties(material: CellView) -> list[tuple[str, object]]:
    """Return the properties of a cell's test case. `history-sha256` is that of the file of its history."""
    header = material.header
    found: list[tuple[str, object]] = [
        (_SCENARIO, header.nodeid.partition("::")[2].partition("::")[0]),
        ("axes", ",".join(f"{axis}={value}" for axis, value in header.axes.items())),
        (_CANDIDATE, header.candidate),
        ("candidate-sha256", header.candidate_sha256),
        (_FILE, f"{header.nodeid.partition('::')[0]}:{header.line}"),
        ("seed", header.seed),
        ("clock", header.clock),
    ]
    found += [("requirement", requirement) for requirement in header.requirements]
    if material.file is not None and material.file.exists():
        found.append(("history-sha256", hashlib.sha256(material.file.read_bytes()).hexdigest()))
    return found


class JUnitCauses:
    """Completes the file before pytest writes it.

    A test case is named by scenario, axes and candidate; its class is the scenario's file as the corpus has it, wherever that is
    installed; file and line are given where the user has them. `candidate-version-NAME`, and `violation-1`, `violation-2` ...
    (each violated row, and what may follow from it) are properties of the suite.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Read the cells that have ended; pytest's own plugin writes the file after this."""
        xml: LogXML | None = session.config.stash.get(xml_key, None)
        directory: Path | None = session.config.stash.get(DIRECTORY, None)
        if xml is None or directory is None or not (directory / RUN_FILE).exists():
            return
        for reporter in xml.node_reporters_ordered:
            case = reporter.to_xml()  # of a test that has ended this is one element, the same each time
            said = {str(one.get("name")): str(one.get("value")) for one in case.iter("property")}
            case.attrib.update(_attributes(said))
        for candidate in read_header(directory).candidates:
            xml.add_global_property(f"candidate-version-{candidate.name}", candidate.version)
        for number, cause in enumerate(find_root_causes(read_run_summary(directory).cells), 1):
            xml.add_global_property(f"violation-{number}", f"{cause.candidate}: {cause.sentence}")


def _attributes(said: dict[str, str]) -> dict[str, str]:
    """Return the attributes of a test case from its properties; none for what is no cell."""
    if _SCENARIO not in said:
        return {}
    file, _, line = said[_FILE].rpartition(":")
    axes = f"[{said['axes']}]" if said["axes"] else ""
    *folders, name = PurePosixPath(file).parts
    last = [folder for folder in folders if folder not in ("", "/", "..")][-1:]
    named = {
        "name": f"{said[_SCENARIO]}{axes} {said[_CANDIDATE]}",
        "classname": ".".join((*last, name.removesuffix(SUFFIX))),
    }
    return named | {"file": file, "line": line} if is_users_file(file) else named
