"""Detectors of the dimensions of mail: how many messages there are, and what is in their envelopes and headers.

A *cell* is one scenario with one value for each of its axes; a *dimension* is something in which scenarios can differ. A detector
returns whether a cell varies its dimension; its docstring says what the cell has then. `sends(cell)` are the steps `send` and
`submit`, `actions(cell, ...)` those of other kinds (`detection`). A step with `in_turn` sends each message to one address of `to`.
"""

import re
from itertools import pairwise

from conformance.scenarios.coverage.detection import actions, detector, repeated, sends
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.action import Parallel
from conformance.scenarios.steps.breaking import Answer, Fault, Partition
from conformance.scenarios.steps.nodes import Kill, Stop
from conformance.scenarios.steps.sending import Resend, Send
from conformance.scenarios.steps.talking import Talk


def _number_of_messages(cell: Cell) -> int:
    """Return how many messages the steps that send and resend have, with the repetitions of blocks; a resend counts as one."""
    return sum(
        times * getattr(step.action, "count", 1)
        for step, times in repeated(cell.steps)
        if isinstance(step.action, Send | Resend)
    )


def _most_at_once(cell: Cell) -> int:
    """Return the most messages that one step sends (`count`), 0 where none sends."""
    return max((send.count for send in sends(cell)), default=0)


@detector
def second_message(cell: Cell) -> bool:
    """There is more than one message."""
    return _number_of_messages(cell) > 1


@detector
def second_message_of_a_session(cell: Cell) -> bool:
    """A session carries more than one message."""
    talks = (sum(line.message is not None for line in talk.lines) > 1 for talk in actions(cell, Talk))
    return any(send.sessions == "one" and send.count > 1 for send in sends(cell)) or any(talks)


@detector
def more_than_20_messages(cell: Cell) -> bool:
    """One step sends more messages than a session carries (20)."""
    return _most_at_once(cell) > 20


@detector
def more_than_100_messages(cell: Cell) -> bool:
    """One step sends more than 100 messages."""
    return _most_at_once(cell) > 100


@detector
def more_than_1000_messages(cell: Cell) -> bool:
    """One step sends more than 1,000 messages."""
    return _most_at_once(cell) > 1000


@detector
def two_sessions_at_once(cell: Cell) -> bool:
    """Messages are sent in several sessions at the same time."""
    background = sum(getattr(action, "background", False) for action in actions(cell, Send, Resend))
    parallel = any(
        sum(isinstance(step.action, Send | Resend | Talk) for step in block.steps) > 1
        for block in actions(cell, Parallel)
    )
    return background > 1 or parallel or any(send.concurrency > 1 and send.count > 1 for send in sends(cell))


@detector
def several_recipients(cell: Cell) -> bool:
    """A message has more than one recipient."""
    return any(len(send.to) > 1 and not send.in_turn for send in sends(cell))


@detector
def many_recipients(cell: Cell) -> bool:
    """A message has at least 20 recipients."""
    return any(len(send.to) >= 20 and not send.in_turn for send in sends(cell))


@detector
def some_recipients_refused(cell: Cell) -> bool:
    """A next hop treats one of several recipients of a message in another way than the others."""
    special = {answer.recipient for answer in actions(cell, Answer) if answer.recipient is not None}
    return any(special & set(send.to) and len(send.to) > 1 and not send.in_turn for send in sends(cell))


@detector
def null_sender(cell: Cell) -> bool:
    """A message has a null reverse-path."""
    return any(send.sender in ("", "<>") for send in sends(cell))


@detector
def delivery_status_requested(cell: Cell) -> bool:
    """A message has NOTIFY, RET, ENVID or the like in its envelope."""
    fields = ("notify", "ret", "envid", "orcpt", "smtputf8")
    return any(getattr(send, field) for send in sends(cell) for field in fields)


@detector
def case_of_a_domain(cell: Cell) -> bool:
    """A recipient's domain is not in lower case."""
    return any(re.search(r"@.*[A-Z]", address) for send in sends(cell) for address in send.to)


@detector
def case_of_a_local_part(cell: Cell) -> bool:
    """A recipient's local part is not in lower case."""
    return any(re.search(r"[A-Z].*@", address) for send in sends(cell) for address in send.to)


@detector
def case_of_a_server_name(cell: Cell) -> bool:
    """Configurations have the names of servers in upper case (`server-names: upper`), or a client says one in another letter case."""
    names = {server.name for server in cell.topology.servers}
    folded = {name.casefold() for name in names}
    said = [word for talk in actions(cell, Talk) for line in talk.lines for word in (line.say or "").split()]
    return cell.topology.server_names != "same" or any(word not in names and word.casefold() in folded for word in said)


@detector
def names_that_begin_alike(cell: Cell) -> bool:
    """The name of a server or a mailbox begins with that of another one."""
    boxes = [box.address.partition("@")[0] for box in cell.topology.mailboxes]
    groups = ([server.name for server in cell.topology.servers], boxes)
    return any(after.startswith(name) for names in groups for name, after in pairwise(sorted(set(names))))


@detector
def numbers_of_several_digits(cell: Cell) -> bool:
    """Costs of site links have different numbers of digits, or there are more than nine messages."""
    lengths = {len(str(link.cost)) for link in cell.topology.site_links}
    return len(lengths) > 1 or _number_of_messages(cell) > 9


@detector
def odd_headers(cell: Cell) -> bool:
    """A message has a header field that is left out or folded, of no standard, or a date in another time zone."""
    fields = [field for send in sends(cell) for field in send.headers.items()]
    fixtures = {send.message for send in sends(cell)}
    return (
        any(value is None or "\n" in value or name.startswith("X-") for name, value in fields)
        or any(name == "Date" and value is not None and not value.endswith("+0000") for name, value in fields)
        or bool(fixtures & {"no-date", "no-message-id"})
    )


@detector
def partial_success(cell: Cell) -> bool:
    """One next hop of a message may take it while another one does not."""
    disturbed = bool(actions(cell, Answer, Partition, Fault, Kill, Stop))
    domains = (
        {address.rpartition("@")[2].casefold() for address in send.to} for send in sends(cell) if not send.in_turn
    )
    return disturbed and (some_recipients_refused(cell) is True or any(len(one) > 1 for one in domains))
