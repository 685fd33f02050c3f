"""A small relay that loses nothing (it writes, syncs, renames, syncs the directory, replies), and changes that lose mail."""

SERVER = """\
import contextlib, os, smtplib, socketserver, sys, threading, time
data, port, hop, hop_port = sys.argv[1:]
def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
def keep(text):
    tmp = os.path.join(data, f"{time.time_ns()}.tmp")
    msg = tmp.replace(".tmp", ".msg")
    with open(tmp, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(tmp, msg)
    sync(data)
class Session(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"220 spooling.test\\r\\n")
        envelope = []
        for line in self.rfile:
            if (verb := line[:4]) in (b"MAIL", b"RCPT"):
                envelope.append(line[line.index(b"<") + 1:line.index(b">")])
            elif verb == b"DATA":
                self.wfile.write(b"354 go on\\r\\n")
                body = b"".join(iter(lambda: self.rfile.readline() or sys.exit(), b".\\r\\n"))
                keep(b"\\n".join([*envelope, b"Received: by spooling.test; Thu, 1 Jan 2026 00:00:00 +0000\\r\\n" + body]))
                envelope.clear()
            self.wfile.write((b"221 bye" if verb == b"QUIT" else b"250 ok") + b"\\r\\n")
def deliver():
    for name in sorted(name for name in os.listdir(data) if name.endswith(".msg")):
        sender, recipient, body = open(os.path.join(data, name), "rb").read().split(b"\\n", 2)
        with smtplib.SMTP(hop, int(hop_port), timeout=30) as smtp:
            smtp.sendmail(sender.decode(), [recipient.decode()], body)
        os.unlink(os.path.join(data, name))
socketserver.ThreadingTCPServer.allow_reuse_address = True
serve = lambda: socketserver.ThreadingTCPServer(("127.0.0.1", int(port)), Session).serve_forever(60)
threading.Thread(target=serve).start()
while not time.sleep(5):
    with contextlib.suppress(OSError, smtplib.SMTPException, ValueError):
        deliver()
"""

_FSYNC = "        os.fsync(file.fileno())\n"
_RENAME = "    os.rename(tmp, msg)\n"
_DIRECTORY = "    sync(data)\n"
_LATE = (
    '                threading.Timer(1, keep, [b"\\n".join([*envelope, b"Received: by spooling.test; Thu, 1 Jan 2026 '
    '00:00:00 +0000\\r\\n" + body])]).start()\n'
)
_KEEP = next(line for line in SERVER.splitlines(keepends=True) if line.startswith("                keep("))
_APPEND = (
    '    with open(tmp, "wb") as file:\n',
    "    msg = os.path.join(data, 'all.msg')\n    with open(msg, \"ab\") as file:\n",
)

LOSES: dict[str, tuple[tuple[str, str], ...]] = {
    "no fsync": ((_FSYNC, ""),),
    "no sync at all": ((_FSYNC, ""), (_DIRECTORY, "")),
    "reply before sync": ((_KEEP, _LATE),),
    "fsync, then rename without any later sync": ((_DIRECTORY, ""),),
    "append without sync": (_APPEND, (_FSYNC, ""), (_RENAME, ""), (_DIRECTORY, "")),
    "fsync, then link without any later sync": ((_RENAME, "    os.link(tmp, msg); os.unlink(tmp)\n"), (_DIRECTORY, "")),
    "fsync, rename, then fdatasync of the file": (
        (_DIRECTORY, "    fd = os.open(msg, os.O_RDONLY); os.fdatasync(fd); os.close(fd)\n"),
    ),
}
"""Mutants that lose mail on ext4, XFS and btrfs: name -> texts of the server and their replacements."""

RELIES_ON_FSYNC: dict[str, tuple[tuple[str, str], ...]] = {
    "in place without fsync of the directory": (
        ('open(tmp, "wb")', 'open(msg, "wb")'), (_RENAME, ""), (_DIRECTORY, ""),
    ),
    "rename, then fsync of the file": ((_DIRECTORY, "    sync(msg)\n"),),
    "link, then fsync of the file": (
        (_RENAME, "    os.link(tmp, msg); os.unlink(tmp)\n"), (_DIRECTORY, "    sync(msg)\n"),
    ),
    "in place with O_SYNC": (
        ('open(tmp, "wb")', 'open(msg, "wb", opener=lambda path, flags: os.open(path, flags | os.O_SYNC))'),
        (_FSYNC, ""), (_RENAME, ""), (_DIRECTORY, ""),
    ),
}  # fmt: skip
"""Mutants that lose mail only where a name is kept by nothing but fsync of its directory."""


def _refusing_with(reply: str) -> tuple[tuple[str, str], ...]:
    """Return the change by which the server refuses a message that it cannot write with this reply; unchanged it ends the session."""
    indented = "    " + _KEEP
    answer = f'                    self.wfile.write(b"{reply}\\r\\n")\n'
    forget = "                    envelope.clear()\n                    continue\n"
    return ((_KEEP, f"                try:\n{indented}                except OSError:\n{answer}{forget}"),)


REFUSES_FOR_NOW = _refusing_with("452 4.3.1 no room")
REFUSES_FOR_GOOD = {"550 without room": _refusing_with("550 5.3.0 cannot write")}


def server(changes: tuple[tuple[str, str], ...] = ()) -> str:
    """Return the server's text with changes. Raises AssertionError if a text to replace does not occur exactly once."""
    text = SERVER
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text
