"""`python -m conformance.scenarios.coverage docs/coverage.md` writes the page."""

import sys
from pathlib import Path

from conformance import paths
from conformance.requirements.catalogue import catalogue
from conformance.scenarios.coverage.table import page, read_dimensions
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_corpus


def corpus_cells() -> list[Cell]:
    """Return the cells of the corpus, with the smoke grid. Raises InvalidFile for a scenario with problems."""
    return [cell for scenario in read_corpus([paths.corpus()], paths.fixtures()) for cell in scenario.cells("smoke")]


def current_page() -> str:
    """Return the page for the corpus as it is."""
    return page(catalogue(), read_dimensions(), corpus_cells())


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(current_page(), "utf-8")
