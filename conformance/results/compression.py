"""Compression of finished cells: the history as gzip, the directories of the nodes as ZIP.

Standard tools read both: `zcat`, `zless`, `unzip`, DuckDB and Spark. A history is compressed when its footer has been
written. Until then it is a plain file, so that the history of a killed run can be read. `writer` compresses, `reader` reads.

A *cell* is one scenario with one value for each of its axes, run with one candidate; its *history* is the file with its events.
An *entry* is a file or folder that `walk` finds below a folder of *attachments*, the directories of a cell's nodes.
"""

import os
import shutil
import time
import zlib
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from conformance.regular_files import MAX_OCTETS, read_regular
from conformance.results.atomic_write import write_atomically
from conformance.results.layout import GZIP_SUFFIX, archive_path
from conformance.shortage import shortage_of
from conformance.untrusted.tree import DirectoryEntry, PinnedDirectory, delete_tree, walk

_LEVEL = 6
"""zlib's level: a history takes a thirteenth of its size. Level 9 saves three percent more and takes twice the time."""
_GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS
"""zlib's way to ask for gzip's header and trailer."""
_DOS_EPOCH = 315619200
"""Unix time of 2 January 1980: ZIP files cannot hold earlier times, in any time zone."""

LEFT_OUT = "LEFT-OUT.txt"
"""The file that lists what was not copied, one path a line."""
_CHUNK = 64 * 1024
"""The most compressed octets that are unpacked at a time."""
_FIRST_CHUNK = 512


def gzip_member(octets: bytes) -> bytes:
    """Return octets as one gzip member without a timestamp: the same octets give the same member."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    return compressor.compress(octets) + compressor.flush()


def compress_history(path: Path) -> Path:
    """Replace a plain history by a compressed one and return the new path; one of the two files is complete at any time."""
    target = path.with_name(path.name.partition(".")[0] + GZIP_SUFFIX)
    write_atomically(target, gzip_member(path.read_bytes()))
    path.unlink()
    return target


def archive_attachments(folder: Path) -> None:
    """Replace a folder of attachments by a ZIP file of its regular files: `nodes/NAME.zip` beside it.

    Files that are unsafe to copy (sparse, nested too deep, or a further name of another user's file) are named in its LEFT-OUT.txt
    instead; links and other special files are dropped. Where this user may not read a file, no ZIP file is written and the
    folder stays; files that cannot be deleted stay in the folder. Raises OSError.
    """
    target = archive_path(folder)
    target.parent.mkdir(exist_ok=True)
    scratch = target.with_name(f".{target.name}")
    left_out: list[str] = []
    pinned = PinnedDirectory(folder)
    try:
        with ZipFile(scratch, "w", ZIP_DEFLATED, strict_timestamps=False) as archive:
            for entry in walk(pinned.handle):
                if entry.may_be_copied:
                    _add_file(archive, entry)
                elif entry.is_file:
                    left_out.append(printable_path(entry))
            if left_out:
                archive.writestr(LEFT_OUT, "\n".join(left_out))
    except PermissionError:
        scratch.unlink()
        return
    finally:
        pinned.close()
    scratch.replace(target)
    delete_tree(folder)


def printable_path(entry: DirectoryEntry) -> str:
    """Return the path of an entry as printable ASCII on one line: its last 300 characters."""
    return ascii(str(entry.path))[1:-1][-300:]


def _add_file(archive: ZipFile, entry: DirectoryEntry) -> None:
    """Add a regular file to a ZIP file, with its modification time (none before 1980) and its mode. Raises OSError."""
    handle = entry.open()
    with os.fdopen(handle, "rb") as file:
        info = ZipInfo(str(entry.path), time.localtime(max(entry.status.st_mtime, _DOS_EPOCH))[:6])
        info.compress_type = ZIP_DEFLATED
        info.external_attr = (entry.status.st_mode & 0xFFFF) << 16  # where Unix tools look for the mode
        info.file_size = entry.status.st_size
        with archive.open(info, "w") as member:
            shutil.copyfileobj(file, member, _CHUNK)


def read_history(path: Path) -> tuple[bytes, str]:
    """Return the octets of a history, plain or compressed, and the reason why they are incomplete ('' for complete ones).

    A file that is missing, not regular, or too large gives no octets, and the reason. Raises OSError where the machine ran out of a
    resource (`shortage_of`).
    """
    try:
        octets = read_regular(path)
    except OSError as error:
        if shortage_of(error):
            raise
        return b"", f"it cannot be read: {error.strerror or error}"
    return _unpack(octets) if path.name.endswith(GZIP_SUFFIX) else (octets, "")


def _unpack(octets: bytes) -> tuple[bytes, str]:
    """Unpack gzip members up to the first damage; return what was unpacked, and the damage or ''.

    At most `MAX_OCTETS` octets are returned.
    """
    unpacked: list[bytes] = []
    position = length = 0
    while position < len(octets):
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        size = _FIRST_CHUNK  # a small first chunk: with many small members, large chunks would be copied again for each
        while not member.eof:
            if position >= len(octets):
                return b"".join(unpacked), "the compressed file was cut short"
            chunk = octets[position : position + size]
            try:
                unpacked.append(member.decompress(chunk))
            except zlib.error as error:
                return b"".join(unpacked), f"the compressed file is damaged: {error}"
            position += len(chunk) - len(member.unused_data)
            length += len(unpacked[-1])
            if length > MAX_OCTETS:
                return b"".join(unpacked)[:MAX_OCTETS], f"the compressed file holds more than {MAX_OCTETS} octets"
            size = min(2 * size, _CHUNK)
    return b"".join(unpacked), ""
