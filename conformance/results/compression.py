"""What of a finished cell is stored compressed: its history as gzip, the directories of its nodes as ZIP.

Both are what standard tools read: `zcat`, `zless`, `unzip`, DuckDB and Spark. A history is packed when its footer has been
written. Until then it stands in a plain file, so that a run that is killed can be read.
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
"""A thirteenth of the size. Level 9 gives three percent more and takes twice the time."""
_GZIP = 16 + zlib.MAX_WBITS
_DOS_EPOCH = 315619200
"""Seconds: the second of January 1980, before which a ZIP file knows no time in any time zone."""

LEFT_OUT = "LEFT-OUT.txt"
_PIECE = 64 * 1024
"""Octets that are uncompressed at a time, at most."""
_FIRST_PIECE = 512


def gzip_member(octets: bytes) -> bytes:
    """Return octets as one gzip member. It has no time in it: the same history gives the same file."""
    pack = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return pack.compress(octets) + pack.flush()


def compress_history(path: Path) -> Path:
    """Replace a plain history by a compressed one and return its path. At each moment one of them is there and whole."""
    target = path.with_name(path.name.partition(".")[0] + GZIP_SUFFIX)
    write_atomically(target, gzip_member(path.read_bytes()))
    path.unlink()
    return target


def archive_attachments(folder: Path) -> None:
    """Replace a folder of attachments by a ZIP file of its regular files. What this user must not read or delete stays as it is.

    Files that would do harm (`DirectoryEntry.may_be_copied`) are left out, and named in LEFT-OUT.txt.
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
                    _add(archive, entry)
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
    """Return the path of an entry as text of one line, at most 300 characters of it."""
    return ascii(str(entry.path))[1:-1][-300:]


def _add(archive: ZipFile, entry: DirectoryEntry) -> None:
    handle = entry.open()
    with os.fdopen(handle, "rb") as file:
        info = ZipInfo(str(entry.path), time.localtime(max(entry.status.st_mtime, _DOS_EPOCH))[:6])
        info.compress_type = ZIP_DEFLATED
        info.external_attr = (entry.status.st_mode & 0xFFFF) << 16
        info.file_size = entry.status.st_size
        with archive.open(info, "w") as packing:
            shutil.copyfileobj(file, packing, _PIECE)


def read_history(path: Path) -> tuple[bytes, str]:
    """Return the lines of a history, plain or compressed, and why they end too early ('' when they do not).

    Of what is no regular file, or too large, there are none. Raises OSError where the machine ran out of something.
    """
    try:
        octets = read_regular(path)
    except OSError as error:
        if shortage_of(error):
            raise
        return b"", f"it cannot be read: {error.strerror or error}"
    return _unpacked(octets) if path.name.endswith(GZIP_SUFFIX) else (octets, "")


def _unpacked(octets: bytes) -> tuple[bytes, str]:
    """Return what gzip members hold, piece by piece: what stands before a damaged one can be read."""
    pieces: list[bytes] = []
    at = held = 0
    while at < len(octets):
        unpack = zlib.decompressobj(_GZIP)
        piece = _FIRST_PIECE  # of very many small members nothing is copied often
        while not unpack.eof:
            if at >= len(octets):
                return b"".join(pieces), "the compressed file was cut short"
            given = octets[at : at + piece]
            try:
                pieces.append(unpack.decompress(given))
            except zlib.error as error:
                return b"".join(pieces), f"the compressed file is damaged: {error}"
            at += len(given) - len(unpack.unused_data)
            held += len(pieces[-1])
            if held > MAX_OCTETS:
                return b"".join(pieces)[:MAX_OCTETS], f"the compressed file holds more than {MAX_OCTETS} octets"
            piece = min(2 * piece, _PIECE)
    return b"".join(pieces), ""
