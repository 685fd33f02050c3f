"""What a run directory holds, as one hash: has it changed since somebody read it?"""

import hashlib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conformance.regular_files import open_regular, read_regular
from conformance.results.compression import read_history
from conformance.results.layout import PARQUET_FOLDER, PLAIN_SUFFIX, RUN_FILE, cell_files, slug_of
from conformance.results.schema import SCHEMA


class Manifest(BaseModel):
    """What tables were made from: the run's content, and each cell file's size by name."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_number: int = Field(SCHEMA, alias="schema")
    content_sha256: str
    sizes: dict[str, int]
    octets: int = Field(0, description="of all lines, as they are without compression")
    damaged: int = Field(0, description="lines that could not be read")
    damage: tuple[str, ...] = Field((), description="the first of them, as file:line: why")
    rows: dict[str, int] = {}
    tables: dict[str, str] = Field({}, description="SHA-256 of each table's file, by the table's name")


def compute_manifest(run_dir: Path) -> Manifest:
    """Read all of a run's cells and return their hash: it depends on names and content, not on where the run lies.

    Nor does it depend on whether they are compressed. `damaged` counts compressed files that are damaged themselves.
    """
    whole = hashlib.sha256(read_regular(run_dir / RUN_FILE))
    sizes = {}
    damage = []
    length = 0
    for path in cell_files(run_dir):
        octets, trouble = read_history(path)
        whole.update(f"{slug_of(path)}{PLAIN_SUFFIX} {len(octets)}\n".encode())
        whole.update(octets)
        sizes[path.name] = path.lstat().st_size
        length += len(octets)
        if trouble:
            damage.append(f"{path.name}: {trouble}")
    return Manifest(
        content_sha256=whole.hexdigest(), sizes=sizes, octets=length, damaged=len(damage), damage=tuple(damage)
    )


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a regular file's content, in hex. Raises OSError."""
    with open(path, "rb", opener=open_regular) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_current_manifest(run_dir: Path) -> Manifest | None:
    """Return the manifest of a run's Parquet tables, or None where there are none that fit the run as it is now.

    Names and sizes are compared, contents are not: a cell's file only ever grows, and is compressed once.
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
