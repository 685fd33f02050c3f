"""What the JUnit file says of a whole run: the causes of its violations, as properties of the test suite."""

from pathlib import Path

import pytest
from _pytest.junitxml import LogXML, xml_key  # there is no public name for it outside a test

from conformance.report.book import causes, read_book
from conformance.results.layout import RUN_FILE
from conformance.suite.directory import DIRECTORY


class JUnitCauses:
    """Adds `violation-1`, `violation-2` ... before pytest writes the file: each violated row, and what may follow from it."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Read the cells that have ended; pytest's own plugin writes the file after this."""
        xml: LogXML | None = session.config.stash.get(xml_key, None)
        directory: Path | None = session.config.stash.get(DIRECTORY, None)
        if xml is None or directory is None or not (directory / RUN_FILE).exists():
            return
        for number, cause in enumerate(causes(read_book(directory).cells), 1):
            xml.add_global_property(f"violation-{number}", f"{cause.candidate}: {cause.sentence}")
