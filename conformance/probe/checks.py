"""The registry of the probe's checks: a check is a function that holds sessions with the server and returns a judgement.

A *clause* is of an RFC; a *row* is of the catalogue of requirements. `conformance probe` runs the checks (`run`).

A module of `conformance.probe.topics` registers one with its clause:

    @check("rset-resets", "RFC 5321 4.1.1.5")
    async def rset_resets(server: Server) -> Judgement: ...

A check returns `passed`, `failed` (a MUST is violated) or `warned` (a SHOULD is not followed), each with a sentence; its
docstring says what must hold. `conformance.probe.run` makes findings of what it raises: *not applicable* of NotApplicable (the
server gives it no occasion), *inconclusive* of ServerSilent, ServerClosed and OSError (a session cannot be opened or go on), and
a *failure* of Unanswered, which `session.command` raises for a command that has no reply.

`server.session()` opens a session up to the reply to EHLO (not with `hello=None`) and ends it with the block; it raises
NotApplicable where the greeting or EHLO is refused, as `begin_transaction` does where MAIL is, and `add_recipient` where RCPT is.
`quit_and_read_replies` sends QUIT and returns all replies up to the end, that to QUIT included: more than one means that the
server took octets for another command.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from conformance.live_checks import LiveOutcome
from conformance.probe.server import Server
from conformance.registry import Registry


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of a check, and a sentence that says what was sent and what came back."""

    outcome: LiveOutcome
    sentence: str


CheckFunction = Callable[[Server], Awaitable[Judgement]]


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name, its clause, the catalogue's row that says the same (None if no row does), its function.

    `last`: it judges what all other checks have seen, and holds no session.
    """

    name: str
    clause: str
    requirement: str | None
    function: CheckFunction
    last: bool = False


CHECKS: Registry[Check] = Registry("check of the probe")


def check(
    name: str, clause: str, requirement: str | None = None, *, last: bool = False
) -> Callable[[CheckFunction], CheckFunction]:
    """Return a decorator that registers a function as a check, with the fields of `Check`, and returns it unchanged."""

    def decorate(function: CheckFunction) -> CheckFunction:
        """Register the function. Raises RegistryError for a name that is taken."""
        CHECKS.add(name, Check(name, clause, requirement, function, last=last))
        return function

    return decorate


def passed(sentence: str) -> Judgement:
    """Return the judgement that the clause holds."""
    return Judgement(LiveOutcome.PASS, sentence)


def failed(sentence: str) -> Judgement:
    """Return the judgement that a MUST is violated."""
    return Judgement(LiveOutcome.FAIL, sentence)


def warned(sentence: str) -> Judgement:
    """Return the judgement that a SHOULD is not followed."""
    return Judgement(LiveOutcome.WARN, sentence)
