"""Reads and rewrites cells' files as they lie in a run directory, compressed or not."""

import gzip
from pathlib import Path

from conformance.results.layout import PLAIN_SUFFIX, slug_of


def plain(path: Path) -> bytes:
    """Return the lines of a cell's file, as `zcat` gives them."""
    octets = path.read_bytes()
    return gzip.decompress(octets) if path.suffix == ".gz" else octets


def rewrite(path: Path, octets: bytes) -> None:
    """Replace the lines of a cell's file, which stays compressed or plain as it is."""
    path.write_bytes(gzip.compress(octets) if path.suffix == ".gz" else octets)


def as_schema_1(run_dir: Path) -> None:
    """Convert a run directory to the form of 0.1.0: every cell's file plain, and every schema number 1."""
    for path in (run_dir / "cells").glob("*.gz"):
        octets = plain(path).replace(b'"schema":2', b'"schema":1', 1)
        (path.parent / f"{slug_of(path)}{PLAIN_SUFFIX}").write_bytes(octets)
        path.unlink()
    for path in (run_dir / "run.json", run_dir / "footer.json"):
        if path.is_file():
            path.write_text(path.read_text("utf-8").replace('"schema": 2', '"schema": 1'), "utf-8")
