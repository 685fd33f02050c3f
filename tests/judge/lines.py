"""The lines of a miniature: each is one action, read in order.

    outside > mbx1  m                            a transaction of message m, up to its final dot
    outside < mbx1  250                          its final reply; `nothing`: the session was lost first
    mbx1 << mbx1-store  250                      the same in the session that was opened first, where several are open
    mbx1 > mbx2  m as shadow s1: 250             both in one line; a shadow copy with its shadow id; a 2010 sender asks before QUIT
    mbx1 > outside  m for a@x, b@x: 250          for these recipients (else those of the message)
    outside > mbx1  m with RET=HDRS              a parameter of MAIL; `each with NOTIFY=NEVER`: of each RCPT
    mbx1 > outside  m for a@x deferring b@x: 250 RCPT of b@x gets 450 (`refusing`: 550, `exceeding`: 552)
    outside > mbx1  m after 95 hops: 250         so many Received fields
    outside > mbx1  m in chunks                  its content by BDAT
    mbx1 > outside  m in a group                 its commands before the first reply; `as a lone dot`: without content
    mbx1 > outside  sends a lone dot             an empty content, in the session that is open
    mbx1 > mbx1-store  m: taken, unheard         the sink took it, and its reply got lost
    mbx1 > outside  report on m, failed for victor@outside.test, to alice@outside.test: 250
    mbx1 > mbx2     report on m, failed for victor@outside.test, to alice@outside.test as shadow s2: 250
    mbx1 > outside  report on m, failed for victor@outside.test, naming q1 and rfc822;v@x, to alice@outside.test: 250
    mbx1 > outside  report on m, failed for victor@outside.test, returning message, lacking a Status, to alice@outside.test: 250
    mbx1 > outside  report on m, relayed for ann@outside.test and failed for victor@outside.test, to alice@outside.test: 250
    mbx1 > outside  journal of m, to audit@archive.test: 250
    mbx2 ? mbx1: s1, s2                          XQDISCARD and the ids in its reply; `nothing`, `silence`, or a refusal
    mbx2 ? mbx1 for 2: s1, s2; 3 left            how many it asks for (else 100), and how many are left (else none)
    mbx2 ? mbx1 twice: nothing, and s1           two of them in two sessions, answered after both were sent
    mbx1 >< mbx2                                 a connection that fails; `at delivery`: to that listener
    mbx1 > mbx2  is not answered                 a session of a greeting and of an EHLO without its reply
    mbx1 > mbx2  is greeted with 550 5.7.1 no    a session of this greeting, which the client leaves without a word
    outside > mbx1  says NOOP: 250 2.0.0 ok      one command and its reply, in the session that is open
    outside > mbx1  hears 250 2.0.0 again        a reply that answers nothing
    outside > mbx1  hears RSET: 221 2.0.0 bye    a reply to a command that was said before
    mbx1 > store  hears CONTENT for a@x: 250 ok  one of the replies of LMTP to a content
    outside > mbx1  hears malformed (why) 250 x  a reply whose octets are not of the form
    outside x mbx1  by server, reset             the session ends; `secured`: unseen from STARTTLS on
    mbx1 begins to stop                          a step `stop`
    mbx1 killed                                  the life of a node; behind it, what is recorded with it
    mbx1 takes ShadowRedundancyEnabled=no        configuration offered; `refuses A=1,frontend.connection_timeout=60: why`
    mbx1 takes peers.mbx2.send_xshadow=no        a right on its connector, after a reload
    mbx1 shows shadow to mbx2: m, n              one queue of `inspect`; `m as s1`: its shadow id; `m for a@x & b@x`; `shows nothing`
    mbx1 shows 3 deliveries                      the entries of duplicate detection
    mbx1 does resubmit DB1                       an administrative command; `fails at resubmit DB1: why`
    mbx1 offers XSHADOW at frontend              what its EHLO replies hold from now on
    mbx1 has database db-new                     the name of its queue database from now on
    fault f: garble in mbx1 > mbx2               a fault fired in the last session of the two
    fault f: delay as mbx1 dials mbx2            a fault fired at a dial, which has no session yet
    fault f healed                               the end of a fault that has fired
    talk t outside > mbx1: expected 502          a talk ended; `as written` when all was
    talk t outside > mta1 says EHLO x: 250 AUTH PLAIN | QUIT: closed    one that ended, with its lines and the replies
    DB1 becomes active elsewhere                 the begin of a step `activate`
    DB1 and DB2 become active on mbx2            the whole of such a step, for one database or several
    a step redirect begins                       a step of the scenario
    step failed                                  the step with that label begins
    expected                                     the expectation is reached (else at the end)
    drained                                      `drained after 6h, busy` when it never was quiet
    mbx1 disk full                               a fault of its disk; `disk healed`
    lag 20s                                      the harness ran late

A duration in front sets the time of this line and of those after it. `also` behind the parties keeps to the session that is
open; `by the harness` says that it speaks under a server's name; `at delivery` names the listener.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from conformance.history import events as ev
from conformance.history.values import Digest, TalkExchange
from conformance.scenarios import values
from tests.judge.history import History, OpenSession, sha

_TIME = re.compile(r"((?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+)\s+(.*)")
_RESULT = r"(?:: (?P<result>.+))?"
_WHAT = (
    r"(?P<name>[a-z][a-z0-9]*)(?: as shadow (?P<shadow>\S+))?(?: for (?P<to>.+?))?(?: refusing (?P<refused>.+?))?(?: deferring (?P<deferred>.+?))?(?: exceeding (?P<exceeding>.+?))?"
    r"(?: from <(?P<sender>[^>]*)>)?(?: at (?P<listener>[a-z]+))?(?: with (?P<mail>\S+))?(?: each with (?P<rcpt>\S+))?(?P<chunked> in chunks)?(?P<grouped> in a group)?(?P<emptied> as a lone dot)?(?P<altered> altered(?P<body> in its body)?)?(?: after (?P<hops>\d+) hops)?"
    r"(?P<harness> by the harness)?"
)
_REPORT = r"report on (?P<name>[a-z]\w*), (?P<action>[a-z]+)(?: for (?P<who>\S+))?(?: and failed for (?P<other>\S+))?(?:, naming (?P<id>\S+) and (?P<original>\S+))?(?:, returning (?P<returned>message|header))?(?:, lacking (?P<lack>[^,]+))?, to (?P<to>\S+?)(?: as shadow (?P<shadow>\S+?))?(?P<loud> with a sender)?"
_EMPTY = Digest(size=0, sha256=sha(""), body_sha256=sha(""), stable_sha256=sha(""))
_JOURNAL = r"journal of (?P<name>[a-z]\w*), to (?P<to>\S+)"
_PAIR = r"(?P<client>\S+) > (?P<server>\S+)\s+(?P<also>also )?"


def add_lines(history: History, text: str) -> None:
    """Add the events of each line to a history. Raises ValueError for a line that matches no pattern."""
    for line in filter(None, (line.partition("#! ")[0].strip() for line in text.splitlines())):
        timed = _TIME.fullmatch(line)
        if timed:
            history.t, line = values.parse_duration(timed[1]), timed[2]
        for pattern, add_events in _PATTERNS:
            if match := re.fullmatch(pattern, line):
                add_events(history, match)
                break
        else:
            raise ValueError(f"cannot parse the line {line!r}")


def _several(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _finish(history: History, client: str, server: str, result: str | None, *, first: bool = False) -> None:
    if result is None:
        return
    if result == "taken, unheard":
        history.final(client, server, None, taken=True, first=first)
    elif result == "nothing":
        history.final(client, server, None, taken=False, first=first)
    else:
        code, _, text = result.partition(" ")
        history.final(client, server, int(code), text, first=first)


def _sent(history: History, m: re.Match[str]) -> None:
    digest = (
        history.mails[m["name"]].digest(altered=bool(m["altered"]), new_body=bool(m["body"]))
        if m["altered"] or m["hops"]
        else None
    )
    if digest is not None and m["hops"]:
        digest = replace(digest, received=int(m["hops"]))
    if m["emptied"]:
        digest = _EMPTY
    history.transmit(
        m["client"], m["server"], m["name"], listener=m["listener"], to=_several(m["to"]), refused=_several(m["refused"]),
        deferred=_several(m["deferred"]), exceeding=_several(m["exceeding"]), shadow=m["shadow"] or "", sender=m["sender"], digest=digest, new=not m["also"],
        mail_parameter=m["mail"] or "", rcpt_parameter=m["rcpt"] or "", chunked=bool(m["chunked"]), grouped=bool(m["grouped"]),
    )  # fmt: skip
    if m["harness"]:
        history.harness.add(history.session(m["client"], m["server"]).name)
    _finish(history, m["client"], m["server"], m["result"])


def _reported(history: History, m: re.Match[str]) -> None:
    about, status = history.mails[m["name"]].digest().message_id, "action" in m.re.groupindex
    who = (m["who"],) if status and m["who"] else ()
    other = (m["other"],) if status and m["other"] else ()
    digest = Digest(
        size=900, sha256=sha(m[0]), body_sha256=sha(m[0]), stable_sha256=sha(m[0]), message_id=f"{sha(m[0])[:8]}@mta",
        report="delivery-status" if status else "journal", about=about, action=m["action"] if status else None,
        failed=(*who, *other) if status and m["action"] == "failed" else other,
        reported=(*(f"{m['action']} {one}" for one in who), *(f"failed {one}" for one in other)), envelope_id=m["id"] if status else None,
        originals=(m["original"],) if status and m["original"] else (),
        returned=m["returned"] if status else None, form_problem=f"it lacks {m['lack']}" if status and m["lack"] else "",
    )  # fmt: skip
    loud = status and m["loud"]
    history.transmit(m["client"], m["server"], "", to=(m["to"],), digest=digest, sender="mta@x" if loud else "",
                     shadow=(m["shadow"] if status else None) or "")  # fmt: skip
    _finish(history, m["client"], m["server"], m["result"])


def _queried(history: History, m: re.Match[str]) -> None:
    answer = m["answer"]
    reply = answer if answer == "silence" or answer[:1].isdigit() else () if answer == "nothing" else _several(answer)
    history.query(
        m["by"], m["at"], reply, in_session=bool(m["also"]), limit=int(m["limit"] or 100), left=int(m["left"] or 0)
    )


def _queried_twice(history: History, m: re.Match[str]) -> None:
    first, second = (() if ids == "nothing" else _several(ids) for ids in (m["first"], m["second"]))
    history.query_twice(m["by"], m["at"], first, second)


def _said(history: History, m: re.Match[str]) -> None:
    one = history.session(m["client"], m["server"], m["listener"])
    code, _, text = (m["result"] or "").partition(" ")
    history.say(one, m["line"], int(code) if code else None, *([text] if code else []))


def _dotted(history: History, client: str, server: str) -> None:
    history.add(ev.Content, session=history.session(client, server).name, digest=_EMPTY)


def _unanswered(history: History, client: str, server: str) -> None:
    one = history.connect(client, server, greet=False)
    history.reply_to(one, "GREETING", 220, "ready")
    history.say(one, f"EHLO {client}")


def _greeted(history: History, m: re.Match[str]) -> None:
    one = history.connect(m["client"], m["server"], greet=False)
    history.reply_to(one, "GREETING", int(m["code"]), m["text"])
    history.close(one, "client", polite=False)


def _heard(history: History, m: re.Match[str]) -> None:
    one = _last(history, m["client"], m["server"])
    history.reply_to(one, m["to"] or "", int(m["code"]), m["text"], recipient=m["whose"], malformed=m["form"] or "")


def _last(history: History, client: str, server: str) -> OpenSession:
    session = next(
        e for e in reversed(history.events)
        if isinstance(e, ev.Connected) and (e.client, e.server) == (client, server)
    )  # fmt: skip
    return OpenSession(session.session, client, server, session.listener)


def _ended(history: History, m: re.Match[str]) -> None:
    one = history.session(m["client"], m["server"])
    history.close(one, m["by"], polite=False, how=m["how"] or "fin")


def _lived(history: History, m: re.Match[str]) -> None:
    history.add(ev.NodeEvent, node=m["node"], action=m["action"], detail=m["detail"] or "")


def _configured(history: History, m: re.Match[str]) -> None:
    changes: dict[str, Any] = {}
    for change in m["change"].split(","):
        name, _, text = change.partition("=")
        of, dot, setting = name.rpartition(".")
        value = values.parse_parameter(int(text) if text.isdigit() else text)
        if dot:  # frontend.connection_timeout=60, peers.mbx2.send_xshadow=no
            changes.setdefault(of if of.startswith("peers.") else f"listeners.{of}", {})[setting] = value
        else:
            changes[name] = value
    history.add(ev.Configured, node=m["node"], changes=changes, refused=m["why"])


def _shown(history: History, m: re.Match[str]) -> None:
    parts = [part.partition(": ") for part in _several_queues(m["queues"])]
    queues = []
    for head, _, items in parts:
        kind, _, hop = head.partition(" to ")
        queues.append({"kind": kind, "next-hop": hop, "items": _several(items)})
    history.inspected(m["node"], queues)


def _several_queues(text: str) -> tuple[str, ...]:
    return () if text == "nothing" else tuple(part.strip() for part in text.split(";"))


def _commanded(history: History, m: re.Match[str]) -> None:
    command, *arguments = m["command"].split(" ")
    history.add(ev.CommandRun, node=m["node"], command=command, arguments=tuple(arguments), failed=m["why"])


def _offered(history: History, m: re.Match[str]) -> None:
    words = () if m["keyword"] == "nothing" else ("ENHANCEDSTATUSCODES", *_several(m["keyword"]))
    history.keywords[m["node"], m["listener"]] = ("PIPELINING", *words)


def _renamed(history: History, m: re.Match[str]) -> None:
    history.databases[m["node"]] = m["database"]


def _fired(history: History, m: re.Match[str]) -> None:
    session = _last(history, m["client"], m["server"]).name
    history.add(ev.FaultFired, fault=m["fault"], action=m["action"], session=session, client=m["client"],
                server=m["server"])  # fmt: skip


def _fired_at_dial(history: History, m: re.Match[str]) -> None:
    history.add(ev.FaultFired, fault=m["fault"], action=m["action"], client=m["client"], server=m["server"])


def _healed(history: History, m: re.Match[str]) -> None:
    fired = next(e for e in reversed(history.events) if isinstance(e, ev.FaultFired) and e.fault == m["fault"])
    links = tuple(f"{fired.client} -> {fired.server} {listener}" for listener in ("delivery", "frontend", "transport"))
    history.add(ev.FaultArmed, fault=fired.fault, action=fired.action, links=links, healed=True)


def _disk_full(history: History, m: re.Match[str]) -> None:
    history.add(
        ev.FaultArmed, fault="full", action="disk-full", links=(f"{m['node']} disk",), healed=m["what"] == "healed"
    )


def _talked(history: History, m: re.Match[str]) -> None:
    history.add(ev.Talked, conversation=m["talk"], client=m["client"], server=m["server"], listener="frontend",
                session=_last(history, m["client"], m["server"]).name,
                exchanges=(TalkExchange(said="EHLO x", code=250),),
                problem="" if m["problem"] == "as written" else m["problem"])  # fmt: skip


def _talked_in_lines(history: History, m: re.Match[str]) -> None:
    exchanges = []
    for part in m["lines"].split(" | "):
        said, _, answer = part.rpartition(": ")
        code, _, text = answer.partition(" ")
        closed = code == "closed"
        exchanges.append(TalkExchange(said=said, code=None if closed else int(code), text=text, closed=closed))
    history.add(ev.Talked, conversation=m["talk"], client=m["client"], server=m["server"], listener="frontend",
                session=None, exchanges=tuple(exchanges))  # fmt: skip


def _began(history: History, m: re.Match[str]) -> None:
    history.step("began", "0", "advance", m["label"])


def _moved(history: History, m: re.Match[str]) -> None:
    detail = "; ".join(f"{database} is active on {m['server']}" for database in m["databases"].split(" and "))
    history.step("began", "0", "activate")
    history.step("ended", "0", "activate", detail=detail)


def _reached(history: History, m: re.Match[str]) -> None:
    history.step("reached", "1", "expect")


def _drained(history: History, m: re.Match[str]) -> None:
    waited = values.parse_duration(m["waited"]) if m["waited"] else 300.0
    history.add(ev.Drained, quiet=not m["busy"], waited=waited)


def _lagged(history: History, m: re.Match[str]) -> None:
    history.add(ev.Lag, seconds=values.parse_duration(m["lag"]))


_PATTERNS: tuple[tuple[str, Callable[[History, re.Match[str]], None]], ...] = (
    (r"a step (?P<verb>[a-z-]+) begins", lambda h, m: h.step("began", "0", m["verb"])),
    (r"(?P<database>DB\d) becomes active elsewhere", lambda h, m: h.step("began", "0", "activate")),
    (r"(?P<databases>DB\d+(?: and DB\d+)*) becomes? active on (?P<server>\S+)", _moved),
    (r"step (?P<label>\S+)", _began),
    (r"expected", _reached),
    (r"drained(?: after (?P<waited>\S+?))?(?P<busy>, busy)?", _drained),
    (r"lag (?P<lag>\S+)", _lagged),
    (r"fault (?P<fault>\S+): (?P<action>\S+) in (?P<client>\S+) > (?P<server>\S+)", _fired),
    (r"fault (?P<fault>\S+): (?P<action>\S+) as (?P<client>\S+) dials (?P<server>\S+)", _fired_at_dial),
    (r"fault (?P<fault>\S+) healed", _healed),
    (r"talk (?P<talk>\S+) (?P<client>\S+) > (?P<server>\S+) says (?P<lines>.+)", _talked_in_lines),
    (r"talk (?P<talk>\S+) (?P<client>\S+) > (?P<server>\S+): (?P<problem>.+)", _talked),
    (_PAIR + r"sends a lone dot", lambda h, m: _dotted(h, m["client"], m["server"])),
    (_PAIR + r"is not answered", lambda h, m: _unanswered(h, m["client"], m["server"])),
    (_PAIR + r"is greeted with (?P<code>\d+) (?P<text>.+)", _greeted),
    (_PAIR + r"says (?P<line>.+?)(?: at (?P<listener>[a-z]+))?" + _RESULT, _said),
    (_PAIR + r"hears (?:(?P<to>[A-Z]+)(?: for (?P<whose>\S+?))?: )?(?:malformed \((?P<form>.+)\) )?(?P<code>\d+) (?P<text>.+)", _heard),
    (r"(?P<client>\S+) x (?P<server>\S+)\s+by (?P<by>client|server|link)(?:, (?P<how>reset|secured))?", _ended),
    (r"(?P<client>\S+) >< (?P<server>\S+)(?: at (?P<listener>[a-z]+))?",
     lambda h, m: _connect_failed(h, m["client"], m["server"], m["listener"])),
    (r"(?P<client>\S+) (?P<which><<?) (?P<server>\S+)\s+(?P<result>.+)",
     lambda h, m: _finish(h, m["client"], m["server"], m["result"], first=m["which"] == "<<")),
    (_PAIR + _REPORT + _RESULT, _reported),
    (_PAIR + _JOURNAL + _RESULT, _reported),
    (_PAIR + _WHAT + _RESULT, _sent),
    (r"(?P<by>\S+) \? (?P<at>\S+) twice: (?P<first>.+), and (?P<second>.+)", _queried_twice),
    (r"(?P<by>\S+) \? (?P<at>\S+?)(?: for (?P<limit>\d+))?(?P<also> also)?: (?P<answer>.+?)(?:; (?P<left>\d+) left)?",
     _queried),
    (r"(?P<node>\S+) has database (?P<database>\S+)", _renamed),
    (r"(?P<node>\S+) offers (?P<keyword>.+) at (?P<listener>\S+)", _offered),
    (r"(?P<node>\S+) takes (?P<change>\S+)(?P<why>(?!))?", _configured),
    (r"(?P<node>\S+) refuses (?P<change>\S+): (?P<why>.+)", _configured),
    (r"(?P<node>\S+) shows (?P<entries>\d+) deliveries", lambda h, m: h.inspected(m["node"], (), int(m["entries"]))),
    (r"(?P<node>\S+) shows (?P<queues>.+)", _shown),
    (r"(?P<node>\S+) does (?P<command>.+?)(?P<why>(?!))?", _commanded),
    (r"(?P<node>\S+) fails at (?P<command>.+): (?P<why>.+)", _commanded),
    (r"\S+ begins to stop", lambda h, m: h.step("began", "0", "stop")),
    (r"(?P<node>\S+) disk (?P<what>full|healed)", _disk_full),
    (r"(?P<node>\S+) (?P<action>started|ready|stopped|killed|wiped|paused|resumed|reloaded|refused|exited|failed)"
     r"(?: (?P<detail>.+))?", _lived),
)  # fmt: skip


def _connect_failed(history: History, client: str, server: str, listener: str | None = None) -> None:
    listener = listener or history.listener(client, server)
    history.add(ev.ConnectFailed, client=client, server=server, listener=listener, reason="refused")
