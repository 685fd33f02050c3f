"""Build the transactions layer's rows of kind `mail` and `discard` from the events of SMTP sessions.

Theory of operation. An exchange is one mail transaction (MAIL, RCPT, content and the replies to them) or one query for discard
status with its answer. The history has their events in the order in which they passed; with pipelining (RFC 2920) the replies
come after all the commands, and transactions follow each other in one session. Three steps, on whole columns with numpy:

1. `_select_session_events` keeps the events that belong to an exchange, gives each a role (MAIL, RCPT_REPLY, ...), and sorts
   them by session and event number.
2. `_exchange_numbers` counts, within a session, how many commands (or replies) that open an exchange came up to each event.
   SMTP replies come in the order of the commands, so the n-th reply to MAIL and all replies after it belong to the n-th
   MAIL. Session, kind and this number together are the key of the exchange that an event belongs to.
3. `_exchange_columns` takes one row for each key that has an opening command, and gathers its columns from the events of that
   key.

In all of them -1 stands for "none" in an array of indices. Of the columns of events, `verb` is that of a command, `to`
the verb that a reply answers, `operation` what either means for shadow redundancy, and `digest` describes a content. A *handshake* is
the reply by which a server agrees to shadow redundancy in a session.
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
    group_starts,
    is_first_of_key,
    lists_by_owner,
    take_or_null,
)

MAIL, RCPT, CONTENT, MAIL_REPLY, RCPT_REPLY, FINAL_REPLY, DISCARD_QUERY, DISCARD_REPLY, CONNECTED, HANDSHAKE = range(10)
"""The role of an event. HANDSHAKE: the reply by which a server agrees to shadow redundancy in this session."""

_HANDSHAKES = ("request-shadow", "track-shadow")
_PATH = re.compile(r"(?:FROM|TO):\s*<([^>]*)>", re.IGNORECASE)
_NOTIFY_WITHOUT_FAILURE = re.compile(r"[^>]*>.* NOTIFY=(?!\S*FAILURE)\S", re.IGNORECASE)


def exchange_rows(events: pa.Table, cell_ids: Integers) -> pa.Table:
    """Return a row for each mail transaction and each query for discard status; `cell_ids` has the id of each event's cell.

    `events` are the rows of a run's own table `events`. The columns are those of `schemas.TRANSACTION_COLUMNS` that such rows
    have. An exchange without its opening command (MAIL or the query) gets no row.
    """
    selected = _select_session_events(events, cell_ids)
    # An exchange without its opening command, as of a damaged history, gets no row.
    opening = np.flatnonzero(np.isin(selected.roles, (MAIL, DISCARD_QUERY)))
    return _exchange_columns(selected, opening[np.argsort(selected.keys[opening], kind="stable")])


@dataclass(frozen=True, slots=True)
class _SessionEvents:
    """The events of sessions that belong to an exchange, sorted by session and event number. All arrays are parallel."""

    events: pa.Table
    """All events of the run, also those that were not selected."""
    rows: Integers
    """The index of each selected event in `events`."""
    cell_ids: Integers
    roles: Integers
    keys: Integers
    """The exchange that the event belongs to: session, mail or discard, and `numbers`, packed into one integer."""
    numbers: Integers
    """Which exchange of its kind in its session that is, from 1."""
    is_discard: Flags
    addresses: DictionaryColumn
    """The address of MAIL or RCPT, or the recipient that a reply names."""
    is_unreported: Flags
    """Whether it is a RCPT that asks for no report of failures (RFC 3461 4.1)."""
    handshakes: DictionaryColumn
    """The operation of the session's latest handshake up to the event."""
    connected_rows: Integers
    """The index in `events` of the event that opened the session; -1 where none was recorded."""


def _select_session_events(events: pa.Table, cell_ids: Integers) -> _SessionEvents:
    """Select and sort the events that belong to exchanges, and find the role, exchange, address and handshake of each.

    Events without a session are left out. `cell_ids` has the id of each event's cell.
    """
    kind, verb, answered_verb = (DictionaryColumn.encode(events[name]) for name in ("kind", "verb", "to"))
    session = DictionaryColumn.encode(events["session"])
    operation = DictionaryColumn.encode(pc.struct_field(events["operation"], "name"))
    is_command, is_reply = kind.is_in(["command"]), kind.is_in(["reply"])
    # A reply to XQDISCARD or XQUERYDISCARD counts also where it is not a list.
    is_discard_reply = operation.is_in(["discard-list"]) | answered_verb.matches(lambda verb: verb.startswith("XQ"))
    is_handshake = is_reply & operation.is_in(_HANDSHAKES)
    belongs = (
        kind.is_in(["connected", "content"])
        | (is_command & (verb.is_in(["MAIL", "RCPT"]) | operation.is_in(["query-discard"])))
        | (is_reply & (answered_verb.is_in(["MAIL", "RCPT", "CONTENT"]) | is_discard_reply))
        | is_handshake
    ) & (session.codes >= 0)
    roles = np.select(
        [
            kind.is_in(["connected"]),
            kind.is_in(["content"]),
            is_command & verb.is_in(["MAIL"]),
            is_command & verb.is_in(["RCPT"]),
            is_command,
            is_discard_reply,
            answered_verb.is_in(["MAIL"]),
            answered_verb.is_in(["RCPT"]),
            answered_verb.is_in(["CONTENT"]),
        ],
        [CONNECTED, CONTENT, MAIL, RCPT, DISCARD_QUERY, DISCARD_REPLY, MAIL_REPLY, RCPT_REPLY, FINAL_REPLY],
        HANDSHAKE,
    )
    rows = np.flatnonzero(belongs)
    # Names of sessions are unique within a cell only.
    sessions = np.unique(cell_ids[rows], return_inverse=True)[1] * (len(session.values) + 1) + session.codes[rows]
    order = np.lexsort((events["n"].to_numpy()[rows], sessions))
    rows, sessions = rows[order], sessions[order]
    roles = roles[rows]
    starts = group_starts(sessions)
    numbers = _exchange_numbers(roles, starts)
    is_discard = np.isin(roles, (DISCARD_QUERY, DISCARD_REPLY))
    handshakes = np.where(is_handshake[rows], operation.codes[rows], np.int64(-1))
    latest = np.maximum.accumulate(np.where(handshakes >= 0, np.arange(len(rows)), -1))
    session_ranks = np.cumsum(is_first_of_key(sessions)) - 1
    return _SessionEvents(
        events=events,
        rows=rows,
        cell_ids=cell_ids[rows],
        roles=roles,
        keys=(session_ranks * 2 + is_discard) * (len(rows) + 1) + numbers,
        numbers=numbers,
        is_discard=is_discard,
        addresses=_addresses(events, rows, roles),
        is_unreported=_is_unreported(events, rows, roles),
        handshakes=DictionaryColumn(
            np.where(latest >= starts, handshakes[latest], -1) if len(rows) else handshakes, operation.values
        ),
        connected_rows=np.where(roles[starts] == CONNECTED, rows[starts], -1) if len(rows) else rows,
    )


def _exchange_numbers(roles: Integers, starts: Integers) -> Integers:
    """Return which exchange of its kind in its session each event belongs to, from 1; 0 before the first.

    `roles` has the role of each event, `starts` the index of the first event of each event's session. Replies about mail
    (and the opening and the handshakes of a session) belong to the latest reply to MAIL, commands and content to the latest
    MAIL.
    """

    def count(role: int) -> Integers:
        """Return how many events of a role the session had up to and including each event."""
        until = np.cumsum(roles == role)
        before = until - (roles == role)
        counted: Integers = until - before[starts]
        return counted

    is_mail_command = np.isin(roles, (MAIL, RCPT, CONTENT))
    return np.select(
        [roles == DISCARD_REPLY, roles == DISCARD_QUERY, is_mail_command],
        [count(DISCARD_REPLY), count(DISCARD_QUERY), count(MAIL)],
        count(MAIL_REPLY),
    )


def _addresses(events: pa.Table, rows: Integers, roles: Integers) -> DictionaryColumn:
    """Return for each selected event its address, null for one that has none; values are sorted.

    It is the address in a MAIL or RCPT command ('' for a command without one), or the recipient that a reply names (LMTP). `rows`
    are the events' indices in `events`, `roles` their roles.
    """
    is_envelope = np.isin(roles, (MAIL, RCPT))
    lines = take_or_null(events["line"].combine_chunks(), np.where(is_envelope, rows, -1))
    paths = DictionaryColumn.encode(lines).map_values(_address_in)
    is_reply = np.isin(roles, (DISCARD_REPLY, MAIL_REPLY, RCPT_REPLY, FINAL_REPLY, HANDSHAKE))
    recipients = take_or_null(events["recipient"].combine_chunks(), np.where(is_reply, rows, -1))
    named = DictionaryColumn.encode(recipients)
    codes = np.where(named.codes >= 0, named.codes + len(paths.values), paths.codes)
    # An address that is in both lists gets one code by `map_values`.
    return DictionaryColumn(codes, (*paths.values, *named.values)).map_values(str).with_sorted_values()


def _is_unreported(events: pa.Table, rows: Integers, roles: Integers) -> Flags:
    """Return for each selected event whether it is a RCPT with a NOTIFY that does not have FAILURE.

    `rows` are the events' indices in `events`, `roles` their roles.
    """
    lines = take_or_null(events["line"].combine_chunks(), np.where(roles == RCPT, rows, -1))
    return DictionaryColumn.encode(lines).matches(lambda line: _NOTIFY_WITHOUT_FAILURE.match(line) is not None)


def _address_in(line: str) -> str:
    """Return the address in a MAIL or RCPT command; '' where there is none."""
    match = _PATH.search(line)
    return match[1] if match else ""


def _exchange_columns(selected: _SessionEvents, opening: Integers) -> pa.Table:
    """Return the finished rows: one for each exchange that has an opening command, in the order of `opening`.

    `opening` are the indices, among the selected events, of the exchanges' opening commands, sorted by key.
    """
    events, count = selected.events, len(opening)
    columns = {
        name: events[name].combine_chunks() for name in ("n", "t", "session", "client", "server", "listener", "code")
    }
    digest, operation = (events[name].combine_chunks() for name in ("digest", "operation"))
    exchange = find_sorted(selected.keys[opening], selected.keys)  # of each event the row of its exchange

    def first_event(role: int) -> Integers:
        """Return for each exchange the index in `events` of its first event of a role; -1 where there is none."""
        # In reverse, since of several values for one index the last assignment stays.
        found = np.flatnonzero((selected.roles == role) & (exchange >= 0))[::-1]
        first = np.full(count, -1, np.int64)
        first[exchange[found]] = selected.rows[found]
        return first

    codes = pc.fill_null(columns["code"], -1).to_numpy(zero_copy_only=False)[selected.rows]
    finals = _rows_by_exchange(selected, exchange, FINAL_REPLY)
    highest_code = np.full(count, -1, np.int64)
    np.maximum.at(highest_code, exchange[finals], codes[finals])
    last_final = np.full(count, -1, np.int64)
    last_final[exchange[finals]] = selected.rows[finals]
    content, discard_reply, opened = first_event(CONTENT), first_event(DISCARD_REPLY), selected.connected_rows[opening]
    first, is_discard = selected.rows[opening], selected.is_discard[opening]
    answer = np.where(is_discard, discard_reply, last_final)
    shadow_id = take_or_null(pc.struct_field(operation, "shadow_id"), first)
    handshake = selected.handshakes.take(opening)
    # A MAIL with XSHADOW= is one of a shadow copy or of a tracked message, by what its session agreed on before.
    mode = np.select(
        [
            shadow_id.is_null().to_numpy(zero_copy_only=False),
            handshake.is_in(["request-shadow"]),
            handshake.is_in(["track-shadow"]),
        ],
        ["plain", "shadow", "tracked"],
        "plain",
    )
    message_key = pc.coalesce(pc.struct_field(digest, "message_id"), pc.struct_field(digest, "body_sha256"))
    return pa.table(
        {
            "cell_id": selected.cell_ids[opening],
            "kind": pa.array(np.where(is_discard, "discard", "mail"), pa.string()),
            **{name: take_or_null(columns[name], first) for name in ("n", "t", "session")},
            **{name: take_or_null(columns[name], opened) for name in ("client", "server", "listener")},
            "number": selected.numbers[opening],
            "mode": pa.array(mode, pa.string()),
            "sender": selected.addresses.take(opening).to_arrow(),
            **_recipient_columns(selected, exchange, codes, finals, highest_code),
            "shadow_id": shadow_id,
            "key": take_or_null(message_key, content),
            **{
                name: take_or_null(pc.struct_field(digest, name), content)
                for name in ("message_id", "stable_sha256", "report", "about", "action", "failed", "size")
            },
            "dot_n": take_or_null(columns["n"], content),
            "dot_t": take_or_null(columns["t"], content),
            "reply_n": take_or_null(columns["n"], answer),
            "reply_t": take_or_null(columns["t"], answer),
            "code": pa.array(highest_code, pa.int64(), mask=highest_code < 0),
            "replies": np.bincount(exchange[finals], minlength=count),
            "limit": take_or_null(pc.struct_field(operation, "limit"), first),
            **{
                name: take_or_null(pc.struct_field(operation, name), discard_reply)
                for name in ("database", "shadow_ids", "left")
            },
        }
    )


def _rows_by_exchange(selected: _SessionEvents, exchange: Integers, role: int) -> Integers:
    """Return the indices, among the selected events, of those of a role, sorted by exchange and event number.

    `exchange` has the row of each event's exchange; events with -1 are left out.
    """
    rows = np.flatnonzero((selected.roles == role) & (exchange >= 0))
    return rows[np.argsort(exchange[rows], kind="stable")]


def _recipient_columns(
    selected: _SessionEvents, exchange: Integers, codes: Integers, finals: Integers, highest_code: Integers
) -> dict[str, pa.Array]:
    """Return the columns of recipients: four with a list for every exchange, and `rcpts`.

    `recipients` were accepted by the reply to RCPT, `accepted` by the final reply; `refused` were refused for good by either.
    `unreported` are those of `recipients` whose NOTIFY asks for no report of failures. `rcpts` counts the RCPT commands that were
    accepted.

    `exchange` and `codes` have the exchange's row and the reply code of each selected event, `finals` the indices of the
    final replies by exchange, `highest_code` the highest code of each exchange's final replies. A pair of exchange and address
    is packed into one integer, `exchange * width + address`.
    """
    count, width = len(highest_code), len(selected.addresses.values) + 1
    per_recipient = np.zeros(count, bool)  # by LMTP there is a final reply for each recipient (RFC 2033)
    per_recipient[exchange[finals[selected.addresses.codes[finals] >= 0]]] = True
    asked, answered = (_rows_by_exchange(selected, exchange, role) for role in (RCPT, RCPT_REPLY))
    size = len(selected.rows)  # the n-th reply to RCPT answers the exchange's n-th RCPT
    matched = find_sorted(_ordinal_keys(exchange[asked], size), _ordinal_keys(exchange[answered], size))
    answered, matched = answered[matched >= 0], matched[matched >= 0]
    pairs, code = exchange[answered] * width + selected.addresses.codes[asked][matched], codes[answered]
    was_taken = (code >= 200) & (code < 300)
    recipients = np.unique(pairs[was_taken])
    unreported = np.unique(pairs[was_taken & selected.is_unreported[asked][matched]])
    final_pairs, final_code = exchange[finals] * width + selected.addresses.codes[finals], codes[finals]
    is_named = per_recipient[exchange[finals]] & (selected.addresses.codes[finals] >= 0)
    all_accepted = (highest_code >= 200) & (highest_code < 300) & ~per_recipient
    all_refused = (highest_code >= 500) & ~per_recipient
    accepted = np.sort(
        np.concatenate(
            [
                recipients[all_accepted[recipients // width]],
                final_pairs[is_named & (final_code >= 200) & (final_code < 300)],
            ]
        )
    )
    refused = np.concatenate(
        [pairs[code >= 500], final_pairs[is_named & (final_code >= 500)], recipients[all_refused[recipients // width]]]
    )
    refused = refused[np.sort(np.unique(refused, return_index=True)[1])]  # each once, in the order of the first replies
    refused = refused[np.argsort(refused // width, kind="stable")]
    lists = {
        name: lists_by_owner(packed // width, packed % width, selected.addresses.values, count)
        for name, packed in (
            ("recipients", recipients),
            ("unreported", unreported),
            ("accepted", accepted),
            ("refused", refused),
        )
    }
    return {**lists, "rcpts": pa.array(np.bincount(pairs[was_taken] // width, minlength=count))}


def _ordinal_keys(owners: Integers, width: int) -> Integers:
    """Return for each row its owner and its ordinal among the owner's rows, from 0, packed into one integer.

    `owners` is sorted; no owner has more than `width` rows.
    """
    return owners * (width + 1) + np.arange(len(owners)) - group_starts(owners)
