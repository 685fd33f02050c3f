"""Exports of the cells of a run of the corpus: captures as Wireshark reads them, and traces.

CONFORMANCE_RUN_DIR names the run's directory; CI runs this after the tox environment `scenarios`. CONFORMANCE_SAMPLE is how many
cells are drawn; by default all are exported.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conformance.drawing import draw
from conformance.export.pcapng import as_pcapng
from conformance.export.perfetto import as_perfetto
from conformance.results.layout import cell_files
from conformance.results.reader import StoredCell, read_cell
from tests.export.readers import MAX_TRACE_OCTETS, check_commands_and_replies, read_trace

pytestmark = [pytest.mark.slow, pytest.mark.integration]


def cells() -> Iterator[StoredCell]:
    """Yield the cells of the run, one at a time; skip the test where no run is named."""
    if not (run := os.environ.get("CONFORMANCE_RUN_DIR")):
        pytest.skip("CONFORMANCE_RUN_DIR names no run directory")
    sample = os.environ.get("CONFORMANCE_SAMPLE")
    files = draw(list(cell_files(Path(run))), int(sample) if sample else None, 1, lambda file: file.name)
    return (read_cell(file) for file in files)


def test_wireshark_reads_the_capture_of_each_cell_that_is_drawn(tshark: str, tmp_path: Path):
    def problem(cell: StoredCell) -> str:
        file = tmp_path / f"{cell.slug}.pcapng"
        file.write_bytes(as_pcapng(cell))
        try:
            check_commands_and_replies(tshark, file, cell)
        except AssertionError as error:
            return f"{cell.slug}: {error}"
        file.unlink()
        return ""

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = list(pool.map(problem, cells()))
    assert problems, "the run has cells"
    assert [text for text in problems if text] == []


def test_the_trace_of_each_cell_that_is_drawn_is_valid_and_small():
    sizes = {}
    for cell in cells():
        octets = as_perfetto(cell)
        read_trace(octets)
        sizes[cell.slug] = len(octets)
    assert sizes, "the run has cells"
    largest = max(sizes, key=sizes.__getitem__)
    assert sizes[largest] < MAX_TRACE_OCTETS, largest
