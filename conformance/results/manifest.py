"""The manifest of a run's Parquet tables: the hash and the file sizes of the cells that the tables were made from.

`parquet` writes it; readers of the tables compare it with the run directory, to tell whether the tables are out of date.
*Damage* is what could not be read. A *cell* is one scenario with one value for each of its axes, run with one candidate. Its slug is
the name of its file without suffixes.
"""

import hashlib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conformance.regular_files import open_regular, read_regular
from conformance.results.compression import read_history
from conformance.results.layout import PARQUET_FOLDER, PLAIN_SUFFIX, RUN_FILE, cell_files, slug_of
from conformance.results.schema import SCHEMA


class Manifest(BaseModel):
    """The content of `manifest.json`: what the tables were made from, and the tables' own hashes.

    `sizes` has the size of each cell's file in octets, by file name; `rows` the number of rows of each table.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_number: int = Field(SCHEMA, alias="schema")
    content_sha256: str
    sizes: dict[str, int]
    octets: int = Field(0, description="octets of all lines, uncompressed")
    damaged: int = Field(0, description="lines that could not be read")
    damage: tuple[str, ...] = Field((), description="the first damaged lines, as file:line: why")
    rows: dict[str, int] = {}
    tables: dict[str, str] = Field({}, description="SHA-256 of each table's file, by the table's name")


def compute_manifest(run_dir: Path) -> Manifest:
    """Read all files of a run's cells and return their manifest, without tables and rows.

    `octets` is the length of all histories, uncompressed. The hash depends on `run.json` and the cells' slugs and
    lines, not on the run's path or on compression. `damaged` counts the files that could not be read or unpacked to
    their end; lines are not parsed here. Raises OSError where `run.json` cannot be read.
    """
    digest = hashlib.sha256(read_regular(run_dir / RUN_FILE))
    sizes = {}
    damage = []
    length = 0
    for path in cell_files(run_dir):
        octets, problem = read_history(path)
        digest.update(f"{slug_of(path)}{PLAIN_SUFFIX} {len(octets)}\n".encode())
        digest.update(octets)
        sizes[path.name] = path.lstat().st_size
        length += len(octets)
        if problem:
            damage.append(f"{path.name}: {problem}")
    return Manifest(
        content_sha256=digest.hexdigest(), sizes=sizes, octets=length, damaged=len(damage), damage=tuple(damage)
    )


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a regular file's content, in hex. Raises OSError."""
    with open(path, "rb", opener=open_regular) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_current_manifest(run_dir: Path) -> Manifest | None:
    """Return the manifest of a run's Parquet tables, or None where it is absent, unreadable, of a later schema or out of date.

    It is out of date where the names or sizes of the cells' files differ. Contents are not compared: a cell's file only
    ever grows, and is compressed once.
    """
    path = run_dir / PARQUET_FOLDER / "manifest.json"
    if not path.is_file():
        return None
    try:
        manifest = Manifest.model_validate_json(read_regular(path))
    except (ValidationError, OSError):
        return None
    sizes = {file.name: file.lstat().st_size for file in cell_files(run_dir)}
    return manifest if manifest.schema_number <= SCHEMA and manifest.sizes == sizes else None
