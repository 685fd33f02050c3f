"""Adds to pytest's JUnit file: names and properties of the cells, by which runs can be compared, and the run's violations.

A *cell* is one scenario with one value for each of its axes, run with one candidate. Its node id is `FILE::SCENARIO::ITEM`.
"""

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
"""Properties of a test case from which its name, class and file are made."""


def cell_properties(view: CellView) -> list[tuple[str, object]]:
    """Return the properties of a cell's test case; `history-sha256` is the hash of its history's file, if that exists."""
    header = view.header
    properties: list[tuple[str, object]] = [
        (_SCENARIO, header.nodeid.partition("::")[2].partition("::")[0]),
        ("axes", ",".join(f"{axis}={value}" for axis, value in header.axes.items())),
        (_CANDIDATE, header.candidate),
        ("candidate-sha256", header.candidate_sha256),
        (_FILE, f"{header.nodeid.partition('::')[0]}:{header.line}"),
        ("seed", header.seed),
        ("clock", header.clock),
    ]
    properties += [("requirement", requirement) for requirement in header.requirements]
    if view.file is not None and view.file.exists():
        properties.append(("history-sha256", hashlib.sha256(view.file.read_bytes()).hexdigest()))
    return properties


class JUnitCompletion:
    """A pytest plugin that completes the JUnit file before pytest writes it.

    A test case is named by scenario, axes and candidate. Its class is the scenario's folder and file without the path to them, which
    differs between installations; file and line are given only for a user's own scenarios. Properties of the whole suite are
    `candidate-version-NAME`, and `violation-1`, `violation-2` ...: each violated requirement with what may follow from it.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Add the attributes and properties; pytest's own plugin writes the file after this.

        Nothing is done without a JUnit file, or where no run has begun.
        """
        xml: LogXML | None = session.config.stash.get(xml_key, None)
        directory: Path | None = session.config.stash.get(DIRECTORY, None)
        if xml is None or directory is None or not (directory / RUN_FILE).exists():
            return  # no file is asked for, or no run has begun
        for reporter in xml.node_reporters_ordered:
            case = reporter.to_xml()  # for a test that has ended this returns the same element each time
            properties_of_case = {str(item.get("name")): str(item.get("value")) for item in case.iter("property")}
            case.attrib.update(_attributes(properties_of_case))
        for candidate in read_header(directory).candidates:
            xml.add_global_property(f"candidate-version-{candidate.name}", candidate.version)
        for number, cause in enumerate(find_root_causes(read_run_summary(directory).cells), 1):
            xml.add_global_property(f"violation-{number}", f"{cause.candidate}: {cause.sentence}")


def _attributes(properties: dict[str, str]) -> dict[str, str]:
    """Return the attributes `name`, `classname`, `file` and `line` from a test case's properties; {} for another test.

    The properties are those of `cell_properties`; the one of the file is `FILE:LINE`.
    """
    if _SCENARIO not in properties:
        return {}
    file, _, line = properties[_FILE].rpartition(":")
    axes = f"[{properties['axes']}]" if properties["axes"] else ""
    *folders, name = PurePosixPath(file).parts
    parent = [folder for folder in folders if folder not in ("", "/", "..")][-1:]
    attributes = {
        "name": f"{properties[_SCENARIO]}{axes} {properties[_CANDIDATE]}",
        "classname": ".".join((*parent, name.removesuffix(SUFFIX))),
    }
    return attributes | {"file": file, "line": line} if is_users_file(file) else attributes
