"""The layer's mail transactions and discard exchanges, gathered from what passed in sessions.

Replies come in the order of the commands, also when those were pipelined: the n-th answers the n-th. So a row is known by its
session and by how many commands (or replies) of its kind there were until it, and what has one number belongs together.
"""

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from conformance.spark.dictionary_column import (
    DictionaryColumn,
    Flags,
    Integers,
    find_sorted,
    is_first_of_key,
    lists_by_owner,
    take_or_null,
)

_SAID = ("MAIL", "RCPT", "query", "connected", "content", "told", "to MAIL", "to RCPT", "to CONTENT", "other")
"""What a row is: a command, a new session, a content, or an answer. `told` and `query` are of discard exchanges."""
MAIL, RCPT, QUERY, CONNECTED, CONTENT, TOLD, TO_MAIL, TO_RCPT, TO_CONTENT, OTHER = range(len(_SAID))

_SHAKES_HANDS = ("request-shadow", "track-shadow")
_PATH = re.compile(r"(?:FROM|TO):\s*<([^>]*)>", re.IGNORECASE)


def exchange_rows(events: pa.Table, cells: Integers) -> pa.Table:
    """Return a row for each mail transaction and discard exchange; `cells` is the cell's number of each event."""
    said = _said(events, cells)
    begun = np.flatnonzero(np.isin(said.what, (MAIL, QUERY)))
    groups = said.keys[begun]  # in their order: rows are in that of sessions and events
    order = np.argsort(groups, kind="stable")
    begun, groups = begun[order], groups[order]
    return _columns(said, begun, groups)


@dataclass(frozen=True, slots=True)
class _Said:
    """What passed in sessions that belongs to an exchange, by session and number of the event."""

    events: pa.Table
    rows: Integers
    """The place of each in `events`."""
    cells: Integers
    what: Integers
    keys: Integers
    """Session, whether of a discard exchange, and number, in one."""
    number: Integers
    discard: Flags
    address: DictionaryColumn
    agreed: DictionaryColumn
    """The last handshake of the session until the row."""
    opened: Integers
    """The place in `events` of the row that opened the session; -1 where that was not recorded."""


def _said(events: pa.Table, cells: Integers) -> _Said:
    kind, verb, to = (DictionaryColumn.of(events[name]) for name in ("kind", "verb", "to"))
    session, operation = (
        DictionaryColumn.of(events["session"]),
        DictionaryColumn.of(pc.struct_field(events["operation"], "name")),
    )
    is_command, is_reply = kind.among(["command"]), kind.among(["reply"])
    enveloped = verb.among(["MAIL", "RCPT"])
    told = operation.among(["discard-list"]) | to.where(lambda one: one.startswith("XQ"))
    answers = to.among(["MAIL", "RCPT", "CONTENT"])
    belongs = (
        kind.among(["connected", "content"])
        | (is_command & (enveloped | operation.among(["query-discard"])))
        | (is_reply & (answers | told | operation.among(_SHAKES_HANDS)))
    ) & (session.codes >= 0)
    what = np.select(
        [
            kind.among(["connected"]),
            kind.among(["content"]),
            is_command & verb.among(["MAIL"]),
            is_command & verb.among(["RCPT"]),
            is_command,
            told,
            to.among(["MAIL"]),
            to.among(["RCPT"]),
            to.among(["CONTENT"]),
        ],
        [CONNECTED, CONTENT, MAIL, RCPT, QUERY, TOLD, TO_MAIL, TO_RCPT, TO_CONTENT],
        OTHER,
    )
    rows = np.flatnonzero(belongs)
    numbers = events["n"].to_numpy()[rows]
    owners = np.unique(cells[rows], return_inverse=True)[1] * (len(session.words) + 1) + session.codes[rows]
    order = np.lexsort((numbers, owners))
    rows, owners = rows[order], owners[order]
    what = what[rows]
    first = np.flatnonzero(is_first_of_key(owners))
    start = np.repeat(first, np.diff(np.append(first, len(rows))))  # of each row the place of its session's first
    number = _number(what, start)
    discard = np.isin(what, (TOLD, QUERY))
    handshake = np.where(is_reply[rows] & operation.among(_SHAKES_HANDS)[rows], operation.codes[rows], np.int64(-1))
    last = np.maximum.accumulate(np.where(handshake >= 0, np.arange(len(rows)), -1))
    agreed = np.where(last >= start, handshake[last], -1) if len(rows) else handshake
    places = np.cumsum(is_first_of_key(owners)) - 1
    return _Said(
        events=events,
        rows=rows,
        cells=cells[rows],
        what=what,
        keys=(places * 2 + discard) * (len(rows) + 1) + number,
        number=number,
        discard=discard,
        address=_addresses(events, rows, what),
        agreed=DictionaryColumn(agreed, operation.words),
        opened=np.where(what[start] == CONNECTED, rows[start], -1) if len(rows) else rows,
    )


def _number(what: Integers, start: Integers) -> Integers:
    """Return which of its session's transactions, or discard exchanges, each row belongs to, from 1."""

    def count(wanted: int) -> Integers:
        until = np.cumsum(what == wanted)
        before = until - (what == wanted)
        counted: Integers = until - before[start]
        return counted

    of_commands = np.isin(what, (MAIL, RCPT, CONTENT))
    return np.select(
        [what == TOLD, what == QUERY, of_commands], [count(TOLD), count(QUERY), count(MAIL)], count(TO_MAIL)
    )


def _addresses(events: pa.Table, rows: Integers, what: Integers) -> DictionaryColumn:
    """Return the address that each row is about: that of MAIL and RCPT, and of a reply that names its recipient."""
    enveloped = np.isin(what, (MAIL, RCPT))
    lines = DictionaryColumn.of(take_or_null(events["line"].combine_chunks(), np.where(enveloped, rows, -1))).made(
        _path
    )
    replies = ~enveloped & np.isin(what, (TOLD, TO_MAIL, TO_RCPT, TO_CONTENT, OTHER))
    named = DictionaryColumn.of(take_or_null(events["recipient"].combine_chunks(), np.where(replies, rows, -1)))
    codes = np.where(named.codes >= 0, named.codes + len(lines.words), lines.codes)
    return DictionaryColumn(codes, (*lines.words, *named.words)).made(str).ranked()


def _path(line: str) -> str:
    match = _PATH.search(line)
    return match[1] if match else ""


def _columns(said: _Said, begun: Integers, groups: Integers) -> pa.Table:
    """Return the layer's columns of the exchanges that began with these rows, whose keys are `groups`, sorted."""
    events, count = said.events, len(begun)
    whole = {
        name: events[name].combine_chunks() for name in ("n", "t", "session", "client", "server", "listener", "code")
    }
    owner = find_sorted(groups, said.keys)

    def of(wanted: int) -> Integers:
        return np.flatnonzero((said.what == wanted) & (owner >= 0))

    def one(wanted: int) -> Integers:
        """Return for each exchange the event of its first row that is such; -1 where there is none."""
        rows = of(wanted)[::-1]
        places = np.full(count, -1, np.int64)
        places[owner[rows]] = said.rows[rows]
        return places

    codes = pc.fill_null(whole["code"], -1).to_numpy(zero_copy_only=False)[said.rows]
    finals = _by_owner(of(TO_CONTENT), owner)
    highest = np.full(count, -1, np.int64)
    np.maximum.at(highest, owner[finals], codes[finals])
    last = np.full(count, -1, np.int64)
    last[owner[finals]] = said.rows[finals]
    each = np.zeros(count, bool)
    each[owner[finals[said.address.codes[finals] >= 0]]] = True
    content, told, opened = one(CONTENT), one(TOLD), said.opened[begun]
    digest, operation = (events[name].combine_chunks() for name in ("digest", "operation"))
    first = said.rows[begun]
    discard = said.discard[begun]
    answer = np.where(discard, told, last)
    shadow_id = take_or_null(pc.struct_field(operation, "shadow_id"), first)
    agreed = said.agreed.of_rows(begun)
    mode = np.select(
        [
            shadow_id.is_null().to_numpy(zero_copy_only=False),
            agreed.among(["request-shadow"]),
            agreed.among(["track-shadow"]),
        ],
        ["plain", "shadow", "tracked"],
        "plain",
    )
    return pa.table(
        {
            "cell_id": said.cells[begun],
            "kind": pa.array(np.where(discard, "discard", "mail"), pa.string()),
            "n": take_or_null(whole["n"], first),
            "t": take_or_null(whole["t"], first),
            "session": take_or_null(whole["session"], first),
            "client": take_or_null(whole["client"], opened),
            "server": take_or_null(whole["server"], opened),
            "listener": take_or_null(whole["listener"], opened),
            "number": said.number[begun],
            "mode": pa.array(mode, pa.string()),
            "sender": said.address.of_rows(begun).arrow(),
            **_recipients(said, owner, codes, finals, each, highest),
            "shadow_id": shadow_id,
            "key": take_or_null(
                pc.coalesce(pc.struct_field(digest, "message_id"), pc.struct_field(digest, "body_sha256")), content
            ),
            **{
                name: take_or_null(pc.struct_field(digest, name), content)
                for name in ("message_id", "stable_sha256", "report", "about", "size")
            },
            "dot_n": take_or_null(whole["n"], content),
            "dot_t": take_or_null(whole["t"], content),
            "reply_n": take_or_null(whole["n"], answer),
            "reply_t": take_or_null(whole["t"], answer),
            "code": pa.array(highest, pa.int64(), mask=highest < 0),
            "replies": np.bincount(owner[finals], minlength=count),
            "limit": take_or_null(pc.struct_field(operation, "limit"), first),
            **{
                name: take_or_null(pc.struct_field(operation, name), told)
                for name in ("database", "shadow_ids", "left")
            },
        }
    )


def _by_owner(rows: Integers, owner: Integers) -> Integers:
    """Return rows by their exchange, those of one in the order in which they came."""
    return rows[np.argsort(owner[rows], kind="stable")]


def _recipients(
    said: _Said, owner: Integers, codes: Integers, finals: Integers, each: Flags, highest: Integers
) -> dict[str, pa.Array]:
    """Return whom RCPT took, whom the final reply took, and who was refused for good, of each exchange.

    `each`: there is a final reply for each recipient (RFC 2033).
    """
    count, width = len(each), len(said.address.words) + 1
    asked, answered = (_by_owner(np.flatnonzero((said.what == what) & (owner >= 0)), owner) for what in (RCPT, TO_RCPT))
    place = find_sorted(_ranked(owner[asked], len(said.rows)), _ranked(owner[answered], len(said.rows)))
    answered, place = answered[place >= 0], place[place >= 0]
    who, whose, code = said.address.codes[asked][place], owner[answered], codes[answered]
    good = (code >= 200) & (code < 300)
    taken = np.unique(whose[good] * width + who[good])
    final_who, final_whose, final_code = said.address.codes[finals], owner[finals], codes[finals]
    told = each[final_whose] & (final_who >= 0)
    passed = (highest >= 200) & (highest < 300) & ~each
    final_good = told & (final_code >= 200) & (final_code < 300)
    accepted = np.sort(
        np.concatenate([taken[passed[taken // width]], final_whose[final_good] * width + final_who[final_good]])
    )
    bad, final_bad = code >= 500, told & (final_code >= 500)
    failed = (highest >= 500) & ~each
    refused = np.concatenate(
        [
            whose[bad] * width + who[bad],
            final_whose[final_bad] * width + final_who[final_bad],
            taken[failed[taken // width]],
        ]
    )
    refused = refused[np.sort(np.unique(refused, return_index=True)[1])]
    refused = refused[np.argsort(refused // width, kind="stable")]
    words = said.address.words
    return {
        name: lists_by_owner(keys // width, keys % width, words, count)
        for name, keys in (("recipients", taken), ("accepted", accepted), ("refused", refused))
    }


def _ranked(owners: Integers, width: int) -> Integers:
    """Return sorted keys of rows that lie by owner: the owner, and which of its rows each is."""
    first = np.flatnonzero(is_first_of_key(owners))
    start = np.repeat(first, np.diff(np.append(first, len(owners))))
    return owners * (width + 1) + np.arange(len(owners)) - start
