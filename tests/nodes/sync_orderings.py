"""Orderings of calls that write and sync, and what a power cut leaves after each.

The program of an ordering begins with `HELPERS`. The files of `before` are on the disk from the start, synced.
"""

from dataclasses import dataclass, field

from tests.nodes.file_systems import Kind

HELPERS = """
import ctypes, mmap, os, sys
os.chdir(sys.argv[1])
C = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def put(name, text, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    fd = os.open(name, flags, 0o640)
    os.write(fd, text.encode())
    os.close(fd)
def add(name, text, flags=0):
    put(name, text, os.O_WRONLY | os.O_APPEND | flags)
def opened(name, do):
    fd = os.open(name, os.O_RDONLY)
    do(fd)
    os.close(fd)
def sync(name="."):
    opened(name, os.fsync)
def datasync(name):
    opened(name, os.fdatasync)
NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
def mapped(name, text, flags):
    fd = os.open(name, os.O_RDWR)
    memory = mmap.mmap(fd, 0)
    memory[:len(text)] = text.encode()
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    check(C.msync(ctypes.c_void_p(address), ctypes.c_size_t(len(memory)), flags))
    os.close(fd)
MS_ASYNC, MS_SYNC = 1, 4
def sync_range(name):
    opened(name, lambda fd: check(C.sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(0), 7)))
"""


@dataclass(frozen=True)
class Ordering:
    """`left`: what ext4, XFS and btrfs keep; `promised`: what POSIX promises, where that is less; a directory ends in /."""

    name: str
    does: str
    left: dict[str, str]
    promised: dict[str, str] | None = None
    before: dict[str, str] = field(default_factory=dict)
    ext4: tuple[dict[str, str], ...] = ()
    """What is seen on ext4 where it is not `left`; more than one where that is a race with the writing of content."""
    xfs: tuple[dict[str, str], ...] = ()
    """The same of XFS."""
    btrfs: tuple[dict[str, str], ...] = ()
    """The same of btrfs."""

    def seen_on(self, kind: Kind) -> tuple[dict[str, str], ...]:
        """Return what a power cut may leave on a real file system."""
        return {"ext4": self.ext4, "xfs": self.xfs, "btrfs": self.btrfs}[kind] or (self.left,)


def _of(
    name: str,
    does: str,
    left: dict[str, str],
    promised: dict[str, str] | None = None,
    *,
    before: dict[str, str] | None = None,
    **seen: dict[str, str] | tuple[dict[str, str], ...],
) -> Ordering:
    kinds = {kind: one if isinstance(one, tuple) else (one,) for kind, one in seen.items()}
    return Ordering(name, does, left, promised, before or {}, **kinds)


OLD, NEW, NONE = {"f": "old"}, {"f": "new"}, dict[str, str]()
X, MSG, TMP, H = {"f": "x"}, {"msg": "x"}, {"tmp": "x"}, {"h": "y"}

ORDERINGS = (
    _of("write", "put('f', 'x')", NONE),
    _of("write-fsync", "put('f', 'x'); sync('f')", X, NONE),
    _of("write-fdatasync", "put('f', 'x'); datasync('f')", X, NONE),
    _of("write-fsync-directory", "put('f', 'x'); sync()", {"f": ""}),
    _of("write-fsync-fsync-directory", "put('f', 'x'); sync('f'); sync()", X),
    _of("write-fdatasync-fsync-directory", "put('f', 'x'); datasync('f'); sync()", X),
    _of("fsync-directory-write-fsync", "put('f', ''); sync(); put('f', 'x'); sync('f')", X),
    _of("write-fsync-write", "put('f', 'x'); sync('f'); sync(); add('f', 'y')", X),
    _of("write-fsync-write-fsync", "put('f', 'x'); sync('f'); sync(); add('f', 'y'); sync('f')", {"f": "xy"}),
    _of("write-close-fsync-through-another-handle", "put('f', 'x'); opened('f', os.fsync); sync()", X),
    _of("many-blocks", "put('f', 'ab' * 9000); sync('f'); sync()", {"f": "ab" * 9000}),
    _of("many-blocks-one-changed",
        "put('f', 'a' * 9000); sync('f'); sync(); put('f', 'b', os.O_WRONLY); sync('f')", {"f": "b" + "a" * 8999}),
    _of("rename", "os.rename('f', 'g')", OLD, before=OLD),
    _of("rename-fsync-directory", "os.rename('f', 'g'); sync()", {"g": "old"}, before=OLD),
    _of("rename-fsync", "os.rename('f', 'g'); sync('g')", {"g": "old"}, OLD, before=OLD),
    _of("fsync-rename-fdatasync", "sync('f'); os.rename('f', 'g'); datasync('g')", OLD, before=OLD,
        xfs={"g": "old"}, btrfs={"g": "old"}),
    _of("write-rename-fsync", "put('tmp', 'x'); os.rename('tmp', 'msg'); sync('msg')", MSG, NONE),
    _of("write-rename-fdatasync", "put('tmp', 'x'); os.rename('tmp', 'msg'); datasync('msg')", MSG, NONE),
    _of("write-fsync-rename", "put('tmp', 'x'); sync('tmp'); os.rename('tmp', 'msg')", TMP, NONE),
    _of("write-fsync-rename-fsync-directory", "put('tmp', 'x'); sync('tmp'); os.rename('tmp', 'msg'); sync()", MSG),
    _of("write-fsync-rename-fsync", "put('tmp', 'x'); sync('tmp'); os.rename('tmp', 'msg'); sync('msg')", MSG, NONE),
    _of("write-fsync-rename-fdatasync",
        "put('tmp', 'x'); sync('tmp'); os.rename('tmp', 'msg'); datasync('msg')", TMP, NONE, xfs=MSG, btrfs=MSG),
    _of("write-fsync-append-rename-fdatasync",
        "put('tmp', 'x'); sync('tmp'); add('tmp', 'y'); os.rename('tmp', 'msg'); datasync('msg')", {"msg": "xy"}, NONE),
    _of("write-fsync-rename-over", "put('tmp', 'new'); sync('tmp'); os.rename('tmp', 'f')",
        {"f": "old", "tmp": "new"}, OLD, before=OLD),
    _of("write-fsync-rename-over-fsync-directory",
        "put('tmp', 'new'); sync('tmp'); os.rename('tmp', 'f'); sync()", NEW, before=OLD),
    _of("write-fsync-rename-over-fsync", "put('tmp', 'new'); sync('tmp'); os.rename('tmp', 'f'); sync('f')",
        NEW, OLD, before=OLD),
    _of("rename-elsewhere", "os.rename('a/f', 'b/f')", {"a/f": "old", "b/": ""}, before={"a/f": "old", "b/": ""}),
    _of("rename-elsewhere-fsync-new-directory", "os.rename('a/f', 'b/f'); sync('b')", {"a/": "", "b/f": "old"},
        {"a/f": "old", "b/f": "old"}, before={"a/f": "old", "b/": ""}, btrfs={"a/f": "old", "b/f": "old"}),
    _of("rename-elsewhere-fsync-old-directory", "os.rename('a/f', 'b/f'); sync('a')", {"a/": "", "b/f": "old"},
        {"a/": "", "b/": ""}, before={"a/f": "old", "b/": ""}),
    _of("rename-elsewhere-fsync-both", "os.rename('a/f', 'b/f'); sync('a'); sync('b')", {"a/": "", "b/f": "old"},
        before={"a/f": "old", "b/": ""}),
    _of("rename-exchange-fsync-directory",
        "check(C.renameat2(-100, b'f', -100, b'g', 2)); sync()", {"f": "2", "g": "1"}, before={"f": "1", "g": "2"}),
    _of("rename-directory", "os.rename('a', 'b')", {"a/f": "old"}, before={"a/f": "old"}),
    _of("rename-directory-fsync-parent", "os.rename('a', 'b'); sync()", {"b/f": "old"}, before={"a/f": "old"}),
    _of("write-fsync-link", "put('tmp', 'x'); sync('tmp'); os.link('tmp', 'msg')", TMP, NONE),
    _of("write-fsync-link-fsync-directory", "put('tmp', 'x'); sync('tmp'); os.link('tmp', 'msg'); sync()", TMP | MSG),
    _of("write-fsync-link-fsync", "put('tmp', 'x'); sync('tmp'); os.link('tmp', 'msg'); sync('msg')", TMP | MSG, NONE),
    _of("write-fsync-link-unlink-fsync-directory",
        "put('tmp', 'x'); sync('tmp'); os.link('tmp', 'msg'); os.unlink('tmp'); sync()", MSG),
    _of("write-fsync-link-fsync-directory-unlink",
        "put('tmp', 'x'); sync('tmp'); os.link('tmp', 'msg'); sync(); os.unlink('tmp')", TMP | MSG),
    _of("unlink", "os.unlink('f')", OLD, before=OLD),
    _of("unlink-fsync-directory", "os.unlink('f'); sync()", NONE, before=OLD),
    _of("unlink-fsync", "fd = os.open('f', os.O_RDONLY); os.unlink('f'); os.fsync(fd)", NONE, OLD, before=OLD),
    _of("remove-by-c-library", "check(C.remove(b'f')); sync()", NONE, before=OLD),
    _of("truncate", "os.truncate('f', 1)", OLD, before=OLD),
    _of("truncate-fsync", "os.truncate('f', 1); sync('f')", {"f": "o"}, before=OLD),
    _of("truncate-fdatasync", "os.truncate('f', 1); datasync('f')", {"f": "o"}, before=OLD),
    _of("truncate-fsync-directory", "os.truncate('f', 1); sync('.')", OLD, before=OLD, ext4={"f": "o"}),
    _of("truncate-to-more-fsync", "os.truncate('f', 5); sync('f')", {"f": "old\0\0"}, before=OLD),
    _of("open-truncated-write", "put('f', 'new')", OLD, before=OLD),
    _of("open-truncated-write-fsync", "put('f', 'new'); sync('f')", NEW, before=OLD),
    _of("overwrite-fdatasync", "put('f', 'new', os.O_WRONLY); datasync('f')", NEW, before=OLD),
    _of("append", "add('f', 'er')", OLD, before=OLD),
    _of("append-fsync", "add('f', 'er'); sync('f')", {"f": "older"}, before=OLD),
    _of("append-fdatasync", "add('f', 'er'); datasync('f')", {"f": "older"}, before=OLD),
    _of("mkdir", "os.mkdir('d')", NONE),
    _of("mkdir-fsync-parent", "os.mkdir('d'); sync()", {"d/": ""}),
    _of("mkdir-fsync", "os.mkdir('d'); sync('d')", {"d/": ""}, NONE),
    _of("mkdir-write-fsync", "os.mkdir('d'); put('d/f', 'x'); sync('d/f')", {"d/f": "x"}, NONE),
    _of("mkdir-write-fsync-fsync-directory", "os.mkdir('d'); put('d/f', 'x'); sync('d/f'); sync('d')", {"d/f": "x"}, NONE),
    _of("mkdir-write-fsync-fsync-both", "os.mkdir('d'); put('d/f', 'x'); sync('d/f'); sync('d'); sync()", {"d/f": "x"}),
    _of("mkdir-fsync-parent-write-fsync", "os.mkdir('d'); sync(); put('d/f', 'x'); sync('d/f')", {"d/f": "x"}, {"d/": ""}),
    _of("rmdir", "os.rmdir('d')", {"d/": ""}, before={"d/": ""}),
    _of("rmdir-fsync-parent", "os.rmdir('d'); sync()", NONE, before={"d/": ""}),
    _of("symlink-fsync-directory", "os.symlink('f', 'l'); sync()", {"f": "old", "l": "old"}, before=OLD),
    _of("symlink", "os.symlink('f', 'l')", OLD, before=OLD),
    _of("o-sync", "put('f', 'x', NEW | os.O_SYNC)", X, NONE),
    _of("o-sync-fsync-directory", "put('f', 'x', NEW | os.O_SYNC); sync()", X),
    _of("o-sync-rename", "put('tmp', 'x', NEW | os.O_SYNC); os.rename('tmp', 'msg')", TMP, NONE),
    _of("o-sync-append", "add('f', 'er', os.O_SYNC)", {"f": "older"}, before=OLD),
    _of("o-dsync", "put('f', 'x', NEW | os.O_DSYNC)", X, NONE),
    _of("o-dsync-append", "add('f', 'er', os.O_DSYNC)", {"f": "older"}, before=OLD),
    _of("fsync-rename-o-dsync-overwrite",
        "sync('f'); os.rename('f', 'g'); put('g', 'new', os.O_WRONLY | os.O_DSYNC)", NEW, before=OLD,
        xfs={"g": "new"}, btrfs={"g": "new"}),
    _of("rwf-sync", "fd = os.open('f', os.O_WRONLY); os.pwritev(fd, [b'new'], 0, 4)", NEW, before=OLD),
    _of("rwf-dsync", "fd = os.open('f', os.O_WRONLY); os.pwritev(fd, [b'new'], 0, 2)", NEW, before=OLD),
    _of("syncfs", "put('f', 'x'); opened('.', lambda fd: check(C.syncfs(fd)))", X),
    _of("syncfs-rename", "put('f', 'x'); opened('.', lambda fd: check(C.syncfs(fd))); os.rename('f', 'g')", X),
    _of("rename-unlink-mkdir-syncfs", "os.rename('f', 'g'); os.unlink('u'); os.mkdir('d'); opened('.', C.syncfs)",
        {"g": "old", "d/": ""}, before={"f": "old", "u": ""}),
    _of("sync", "put('f', 'x'); os.sync()", X),
    _of("sync-file-range", "put('f', 'x'); sync_range('f')", NONE),
    _of("sync-file-range-append", "add('f', 'er'); sync_range('f')", OLD, before=OLD),
    _of("msync", "mapped('f', 'new', MS_SYNC)", NEW, before=OLD),
    _of("msync-async", "mapped('f', 'new', MS_ASYNC)", OLD, before=OLD),
    _of("msync-rename", "mapped('f', 'new', MS_SYNC); os.rename('f', 'g')", NEW, before=OLD),
    _of("unnamed-fsync-link-fsync-directory",
        "fd = os.open('.', os.O_TMPFILE | os.O_WRONLY); os.write(fd, b'x'); os.fsync(fd); "
        "check(C.linkat(-100, f'/proc/self/fd/{fd}'.encode(), -100, b'msg', 0x400)); sync()", MSG),
    _of("mkstemp-fsync-rename-fsync-directory",
        "name = ctypes.create_string_buffer(b'XXXXXX'); fd = check(C.mkstemp(name)); os.write(fd, b'x'); os.fsync(fd); "
        "os.rename(name.value, 'msg'); sync()", MSG),
    _of("mkdtemp-rename-fsync-directory",
        "name = ctypes.create_string_buffer(b'XXXXXX'); C.mkdtemp(name); os.rename(name.value, 'd'); sync()", {"d/": ""}),
    _of("stdio-fsync-fsync-directory",
        "C.fopen.restype = ctypes.c_void_p; F = ctypes.c_void_p; file = F(C.fopen(b'f', b'w')); C.fputs(b'x', file); "
        "C.fflush(file); check(C.fsync(C.fileno(file))); sync()", X),
    _of("at-a-directory's-handle",
        "at = os.open('d', os.O_RDONLY); fd = os.open('tmp', NEW, dir_fd=at); os.write(fd, b'x'); os.fsync(fd); "
        "os.rename('tmp', 'msg', src_dir_fd=at, dst_dir_fd=at); os.fsync(at)", {"d/msg": "x"}, before={"d/": ""}),
    _of("through-a-symbolic-link", "os.symlink('d', 'l'); put('l/f', 'x'); sync('l/f'); sync('l')", {"d/f": "x"},
        before={"d/": ""}, ext4={"d/f": "x", "l/f": "x"}, xfs={"d/f": "x", "l/f": "x"}),
    _of("inode-used-again", "os.unlink('f'); put('g', 'new'); sync('g')", {"f": "old", "g": "new"}, OLD, before=OLD,
        ext4={"g": "new"}, xfs={"g": "new"}),
    _of("write-fsync-rename-fsync-of-another-file",
        "put('tmp', 'x'); sync('tmp'); os.rename('tmp', 'msg'); put('f', 'y'); sync('f')", TMP | {"f": "y"}, NONE,
        ext4=MSG | {"f": "y"}, xfs=MSG | {"f": "y"}, btrfs=MSG | {"f": "y"}),
    _of("write-fsync-commit-rename-fsync-of-another-file",
        "put('tmp', 'x'); sync('tmp'); os.sync(); os.rename('tmp', 'msg'); put('h', 'y'); sync('h')", TMP | H, TMP,
        ext4=MSG | H, xfs=MSG | H),
    _of("rename-fsync-of-another-file", "os.rename('f', 'g'); put('h', 'y'); sync('h')", OLD | H, OLD, before=OLD,
        ext4={"g": "old"} | H, xfs={"g": "old"} | H),
    _of("rename-fdatasync-of-another-file", "os.rename('f', 'g'); put('h', 'y', os.O_WRONLY); datasync('h')", OLD | H,
        before=OLD | {"h": "-"}, ext4={"g": "old"} | H),
    _of("write-fsync-link-fsync-of-another-file",
        "put('tmp', 'x'); sync('tmp'); os.link('tmp', 'msg'); put('h', 'y'); sync('h')", TMP | H, NONE,
        ext4=TMP | MSG | H, xfs=TMP | MSG | H, btrfs=TMP | MSG | H),
    _of("unlink-fsync-of-another-file", "os.unlink('f'); put('h', 'y'); sync('h')", OLD | H, OLD, before=OLD,
        ext4=H, xfs=H),
    _of("mkdir-fsync-of-another-file", "os.mkdir('d'); put('h', 'y'); sync('h')", H, NONE,
        ext4={"d/": ""} | H, xfs={"d/": ""} | H),
    _of("write-fsync-of-another-file", "put('f', 'x'); put('h', 'y'); sync('h')", H, NONE,
        ext4={"f": ""} | H, xfs={"f": ""} | H),
    _of("write-rename-over-fsync-directory", "put('tmp', 'new'); os.rename('tmp', 'f'); sync()", {"f": ""}, before=OLD,
        ext4=(NEW, {"f": "\0\0\0"})),
    _of("overwrite-sync-file-range", "put('f', 'new', os.O_WRONLY); sync_range('f')", OLD, before=OLD, ext4=NEW, xfs=NEW),
)  # fmt: skip
