"""Checks of octets: command lines, parameters, and contents.

The *record* has command lines and contents as they were sent, which the history (`trace`) does not have. A *tally* counts the
occasions to violate a clause, and has what is wrong or cannot be decided. `checks.judge_client` calls the functions
`check_...`.
"""

import re

from conformance.listen.checks.tally import Tally
from conformance.listen.record import ListenRecord, SentLine
from conformance.report.escaping import visible
from conformance.trace.sessions import Session
from conformance.trace.trace import Trace

MAX_COMMAND_LINE = 512
"""Octets of a command line with its CRLF (RFC 5321 4.5.3.1.4)."""

MAX_TEXT_LINE = 998
"""Octets of a line of content without its CRLF and a doubled dot (RFC 5321 4.5.3.1.6)."""

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_LITERAL = r"\[(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|IPv6:[0-9A-Fa-f:.]+|[A-Za-z0-9-]*[A-Za-z0-9]:[!-Z^-~]+)\]"
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LOCAL = rf'(?:{_ATOM}(?:\.{_ATOM})*|"(?:[ !#-\[\]-~]|\\[ -~])*")'
_MAILBOX = rf"{_LOCAL}@(?:{_DOMAIN}|{_LITERAL})"
_ROUTE = rf"(?:@{_DOMAIN}(?:,@{_DOMAIN})*:)?"
_PARAMETERS = r"(?: [A-Za-z0-9][A-Za-z0-9-]*(?:=[!-<>-~]+)?)*"
_FORMS = {
    "EHLO": (rf"EHLO (?:{_DOMAIN}|{_LITERAL})", "RFC 5321 4.1.1.1"),
    "HELO": (rf"HELO {_DOMAIN}", "RFC 5321 4.1.1.1"),
    "MAIL": (rf"MAIL FROM:<(?:{_ROUTE}{_MAILBOX})?>{_PARAMETERS}", "RFC 5321 4.1.1.2"),
    "RCPT": (rf"RCPT TO:<(?:Postmaster|{_ROUTE}{_MAILBOX})>{_PARAMETERS}", "RFC 5321 4.1.1.3"),
    "DATA": (r"DATA", "RFC 5321 4.1.1.4"),
    "RSET": (r"RSET", "RFC 5321 4.1.1.5"),
    "QUIT": (r"QUIT", "RFC 5321 4.1.1.10"),
    "": (r"[A-Za-z]+(?: .*)?", "RFC 5321 4.1.1"),
}
_SYNTAX = {verb: (re.compile(pattern, re.IGNORECASE), clause) for verb, (pattern, clause) in _FORMS.items()}

_UP_TO_PARAMETERS = re.compile(r'[^<]*<(?:"(?:[^"\\]|\\.)*"|[^">])*> ')
"""The beginning of a MAIL or RCPT with parameters; a local part in quotes may have `> ` in it."""

_EXTENSION_OF = {"BODY": "8BITMIME", "RET": "DSN", "ENVID": "DSN", "NOTIFY": "DSN", "ORCPT": "DSN"}
"""Parameters of MAIL and RCPT -> the EHLO keyword of their extension, where the two have different names."""


def check_commands(record: ListenRecord, trace: Trace) -> list[Tally]:
    """Check the form of command lines, their ends and their length. The form of a verb without a grammar here is not checked."""
    form = Tally("command-syntax", "RFC 5321 4.1.1", "writes commands as the grammar says")
    ends = Tally("command-line-ends", "RFC 5321 2.3.8", "ends each command with CRLF, and has no other CR or LF in it")
    length = Tally(
        "command-length", "RFC 5321 4.5.3.1.4", f"sends no command above {MAX_COMMAND_LINE} octets", should=True
    )
    for line in record.lines:
        text = line.raw.decode("ascii", "backslashreplace")
        shown = visible(text, 100)
        length.occasions += 1
        if line.size > MAX_COMMAND_LINE:
            length.violate(f"a line has {line.size} octets: {shown}", line.session)
        ends.occasions += 1
        if line.line_end != b"\r\n" or b"\r" in line.raw:
            ends.violate(f"a line ends with {line.line_end!r}: {shown}", line.session)
        if (syntax := _SYNTAX.get(line.verb)) is not None:
            pattern, clause = syntax
            form.occasions += 1
            if not pattern.fullmatch(text):
                form.violate(f"{shown}: {_problem(line, text)} ({clause})", line.session)
    return [form, ends, length]


def _problem(line: SentLine, text: str) -> str:
    """Return in words what is wrong with a line that does not match the grammar."""
    if not line.raw.isascii():
        return "it is not ASCII, and SMTPUTF8 was not offered"
    if re.match(r"(?:MAIL FROM|RCPT TO)(?: +:| *: +)", text, re.IGNORECASE):
        return "no space is allowed beside the colon (RFC 5321 3.3)"
    if text != text.rstrip():
        return "white space at the end"
    if line.verb in ("MAIL", "RCPT") and "<" not in text:
        return "the address has no angle brackets"
    return "this is not the form of the command"


def check_parameters(record: ListenRecord, trace: Trace) -> list[Tally]:
    """Check that the parameters of MAIL and RCPT belong to extensions that were offered."""
    tally = Tally("parameters", "RFC 5321 4.1.1.3", "sends only parameters of extensions that EHLO offered")
    for session in trace.sessions.values():
        for verb, line, keywords in commands_with_keywords(session):
            path = _UP_TO_PARAMETERS.match(line)
            for word in line[path.end() :].split() if path and verb in ("MAIL", "RCPT") else ():
                name = word.partition("=")[0].upper()
                if _EXTENSION_OF.get(name, name) in keywords:
                    tally.occasions += 1
                else:
                    tally.violate(f"{visible(line, 100)}: {visible(name, 40)} was not offered", session.name)
    return [tally]


def commands_with_keywords(session: Session) -> list[tuple[str, str, frozenset[str]]]:
    """Return each command's verb and line, and the EHLO keywords that the client had read when it was sent: none after HELO."""
    hellos = [
        (x.reply.n, frozenset(line.split(" ")[0].upper() for line in x.reply.lines[1:]))
        for x in session.exchanges
        if x.command.verb in ("EHLO", "HELO") and x.reply is not None and x.reply.code // 100 == 2
    ]
    none: frozenset[str] = frozenset()
    return [
        (x.command.verb, x.command.line, next((words for n, words in reversed(hellos) if n < x.command.n), none))
        for x in session.exchanges
    ]


def check_contents(record: ListenRecord, trace: Trace) -> list[Tally]:
    """Check what was sent as content after DATA: dot-stuffing, line ends, lengths of lines, octets above 127."""
    dots = Tally("dot-stuffing", "RFC 5321 4.5.2", "doubles the dot of each line that begins with one")
    ends = Tally("content-line-ends", "RFC 5321 2.3.8", "sends no CR or LF outside of CRLF")
    length = Tally(
        "content-line-length", "RFC 5321 4.5.3.1.6", f"sends no line above {MAX_TEXT_LINE} octets", should=True
    )
    eight = Tally("eight-bit-content", "RFC 5321 2.4", "announces octets above 127 with BODY=8BITMIME")
    for content in record.contents:
        session = content.session
        dots.occasions += content.dotted
        if content.unstuffed:
            dots.violate(f"a line was sent as {visible(content.example.decode('ascii', 'backslashreplace'))}", session)
        if content.complete:
            ends.occasions += 1
            length.occasions += 1
        if content.bare_cr or content.bare_lf:
            ends.violate(f"a content has {content.bare_lf} LF without CR, and {content.bare_cr} CR without LF", session)
        if content.longest > MAX_TEXT_LINE:
            length.violate(f"a line has {content.longest} octets", session)
        if content.eight_bit:
            eight.occasions += content.declared
            if not content.declared:
                eight.violate(
                    f"a content has {content.eight_bit} octets above 127, and MAIL had no BODY=8BITMIME", session
                )
    return [dots, ends, length, eight]
