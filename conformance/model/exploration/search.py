"""Enumerate every reachable state of a scope.

Sites (what all messages share) and messages are numbered as they are met, and a state is one integer made of these numbers:
`_BITS` bits for the site's, then `_BITS` for each message's. What a rule permits depends on one message and on the site only, so
it is computed once for each pair of them. `causes.py` and `page.py` use this. In the private methods `site` and `message` are
numbers, unless typed as `Site` or `Message`; the *position* of a message is its place in the scope.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple, TypeVar

from conformance.model.exploration import common_rules, hub_rules, mailbox_rules  # noqa: F401  (they fill RULES)
from conformance.model.exploration.rules import RULES, World
from conformance.model.exploration.scope import Destination, Scope
from conformance.model.exploration.server_rules import SERVER_RULES, ServerStep
from conformance.model.exploration.state import FIRST_MESSAGE, Message, Site

T = TypeVar("T")

_BITS = 20
_MASK = (1 << _BITS) - 1


class Move(NamedTuple):
    """A step from one state to the next: what happens, what has gone wrong (or ''), and the number of the next state."""

    text: str
    cause: str
    state: int


@dataclass(frozen=True, slots=True)
class Size:
    """How large a scope is: how many states can be reached, and how many moves are permitted in all of these together."""

    states: int
    moves: int


class Model:
    """The states and moves of one scope; `without` leaves rules out by name.

    `_sites` and `_messages` have what was met so far by its number, and `..._numbers` the number of each. `_steps`, `_server_steps` and
    `_effects` are caches of what the rules permit. `start` is the first state.
    """

    def __init__(self, scope: Scope, without: frozenset[str] = frozenset()) -> None:
        """Take the rules of the scope's generation, and number the first state: all servers run, and nothing is sent."""
        self.scope = scope
        self._rules = [
            entry.permitted
            for name, entry in RULES.items()
            if name not in without and scope.generation in entry.generations
        ]
        self._server_rules = [permitted for name, (_, permitted) in SERVER_RULES.items() if name not in without]
        self._sites: list[Site] = []
        self._site_numbers: dict[Site, int] = {}
        self._messages: list[Message] = []
        self._message_numbers: dict[Message, int] = {}
        self._steps: dict[tuple[Destination, int, int], list[tuple[str, str, int, int]]] = {}
        self._server_steps: dict[int, list[tuple[int, ServerStep]]] = {}
        self._effects: dict[tuple[int, int, int], tuple[tuple[int, ...], str]] = {}
        everyone = (True,) * scope.servers
        site = Site(
            up=everyone,
            cut=False,
            crashes_left=scope.crashes,
            databases_left=scope.databases,
            replies_left=scope.replies,
            refusals_left=scope.refusals,
            failovers_left=scope.failovers,
            cuts_left=scope.cuts,
        )
        self.start = self._pack(
            self._number_of_site(site), [self._number_of_message(FIRST_MESSAGE)] * len(scope.messages)
        )

    def site(self, state: int) -> Site:
        """Return what the messages of a state share: servers that run, faults that are left."""
        return self._sites[state & _MASK]

    def messages(self, state: int) -> tuple[Message, ...]:
        """Return the messages of a state, in the order of the scope."""
        return tuple(self._messages[number] for number in self._unpack(state)[1])

    def moves(self, state: int) -> Iterator[Move]:
        """Yield every move that is permitted in a state: a step of one message, or of a server or the network.

        The cause of a step of a server is the one as seen from the first message. Where a step has several effects on a message,
        each is a move.
        """
        site, messages = self._unpack(state)
        for position, message in enumerate(messages):
            shift = _BITS * (position + 1)
            rest = state & ~(_MASK | _MASK << shift)
            for text, cause, next_site, next_message in self._message_steps(position, site, message):
                yield Move(text=text, cause=cause, state=rest | next_site | next_message << shift)
        for index, (next_site, step) in enumerate(self._steps_of_servers(site)):
            effects = [self._effect(site, index, step, message) for message in messages]
            for choice in product(*(alternatives for alternatives, _ in effects)):
                yield Move(text=step.text, cause=effects[0][1], state=self._pack(next_site, choice))

    def size(self) -> Size:
        """Visit every reachable state, and return their number and that of the moves from them; this may take a minute.

        Raises OverflowError for a scope with more different messages than `_BITS` bits can number.
        """
        seen, frontier, moves = {self.start}, [self.start], 0
        while frontier:
            found = []
            for state in frontier:
                for move in self.moves(state):
                    moves += 1
                    if move.state not in seen:
                        seen.add(move.state)
                        found.append(move.state)
            frontier = found
        return Size(len(seen), moves)

    def _message_steps(self, position: int, site: int, message: int) -> list[tuple[str, str, int, int]]:
        """Return the steps of one message that faults are left for; cached, and the returned list is the cached one.

        Each is text, cause, and the numbers of site and message afterwards. `position` says which message of the scope it is.
        """
        destination = self.scope.messages[position]
        key = destination, site, message
        if key not in self._steps:
            shared, found = self._sites[site], []
            world = World(scope=self.scope, up=shared.up, cut=shared.cut, destination=destination)
            for permitted in self._rules:
                for step in permitted(world, self._messages[message]):
                    after = shared
                    if step.cost is not None:
                        left = getattr(shared, f"{step.cost}_left")
                        if not left:
                            continue
                        after = shared._replace(**{f"{step.cost}_left": left - 1})
                    found.append(
                        (step.text, step.cause, self._number_of_site(after), self._number_of_message(step.message))
                    )
            self._steps[key] = found
        return self._steps[key]

    def _steps_of_servers(self, site: int) -> list[tuple[int, ServerStep]]:
        """Return the steps of servers that are permitted at a site, each with the number of the site after it; cached."""
        if site not in self._server_steps:
            self._server_steps[site] = [
                (self._number_of_site(step.site), step)
                for permitted in self._server_rules
                for step in permitted(self.scope, self._sites[site])
            ]
        return self._server_steps[site]

    def _effect(self, site: int, index: int, step: ServerStep, message: int) -> tuple[tuple[int, ...], str]:
        """Return the numbers of what a message may be after a step of a server, and the cause as seen from the message; cached.

        `index` is the place of the step among those of its site.
        """
        key = site, index, message
        if key not in self._effects:
            before = self._messages[message]
            after = step.effect(before) if step.effect else (before,)
            cause = step.cause(before) if step.cause else ""
            self._effects[key] = tuple(map(self._number_of_message, after)), cause
        return self._effects[key]

    def _number_of_site(self, site: Site) -> int:
        """Return the number of a site, which gets the next one when it is met for the first time."""
        return _numbered(site, self._site_numbers, self._sites)

    def _number_of_message(self, message: Message) -> int:
        """Return the number of a message's state, which gets the next one when it is met for the first time."""
        return _numbered(message, self._message_numbers, self._messages)

    def _pack(self, site: int, messages: tuple[int, ...] | list[int]) -> int:
        """Return the state made of the numbers of a site and of messages."""
        for position, message in enumerate(messages):
            site |= message << _BITS * (position + 1)
        return site

    def _unpack(self, state: int) -> tuple[int, list[int]]:
        """Return the numbers of the site and of the messages of a state."""
        count = len(self.scope.messages)
        return state & _MASK, [state >> _BITS * (i + 1) & _MASK for i in range(count)]


def _numbered(thing: T, numbers: dict[T, int], things: list[T]) -> int:
    """Return the number of a thing; a new thing gets the next one, and is entered into `numbers` and `things`.

    Raises OverflowError where there are as many things as `_BITS` bits can number.
    """
    if thing not in numbers:
        numbers[thing] = len(things)
        things.append(thing)
        if len(things) > _MASK:
            raise OverflowError("the scope has more different messages than a state can number")
    return numbers[thing]
