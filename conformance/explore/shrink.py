"""Reduces a plan that violates a rule to one that still does, and has as few steps, messages, servers and parameters as possible.

Delta debugging (Zeller and Hildebrandt, 2002) over the steps: halves, then quarters, and so on down to single steps are left out
while the same check fails. Then numbers of messages become 1, and lists of recipients one recipient; parameters get their defaults, all
at once or one by one; and servers are left out whose mailboxes no message is from or for. A plan that leaves out too much is invalid or
sound; both count as not failing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from conformance.explore.sweep import Plan, numbered
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.action import Action, Parallel, Repeat, Step
from conformance.scenarios.steps.sending import Send
from conformance.topology import Topology

MAX_RUNS = 150
"""Runs that the reduction of one plan may take, without another limit."""

StillFails = Callable[[Plan], bool]
_Setting = tuple[str, str]
"""A parameter that a topology sets: the server for which it does, '' for all, and the parameter's name."""


class _Budget:
    """Counts the runs of a reduction; once `max_runs` are used up, `fails` returns False without a run."""

    def __init__(self, fails: StillFails, max_runs: int) -> None:
        """Begin to count; `fails` runs a plan and returns whether the check still fails."""
        self._fails = fails
        self._max_runs = max_runs
        self.runs = 0

    def fails(self, plan: Plan) -> bool:
        """Return whether the plan still fails; False when no run is left."""
        if self.runs >= self._max_runs:
            return False
        self.runs += 1
        return self._fails(plan)


def shrink(plan: Plan, fails: StillFails, max_runs: int = MAX_RUNS) -> Plan:
    """Return the smallest plan that was found for which `fails` holds; it must hold for `plan`.

    Blocks: each call of `fails` runs a plan, `max_runs` at the most.
    """
    budget = _Budget(fails, max_runs)
    while True:
        smaller = _with_smaller_sends(_with_fewer_steps(plan, budget), budget)
        smaller = _with_fewer_servers(_with_fewer_parameters(smaller, budget), budget)
        if (smaller.cell.steps, smaller.cell.topology) == (plan.cell.steps, plan.cell.topology):
            return plan
        plan = smaller


def _with_fewer_steps(plan: Plan, budget: _Budget) -> Plan:
    """Return the plan without the steps that can be left out, by delta debugging; at least one stays.

    Where something is left out, the steps of blocks stand in place of the blocks (`_steps_of_blocks`).
    """
    steps, parts = list(_steps_of_blocks(plan.cell.steps)), 2
    while len(steps) > 1:
        size = -(-len(steps) // parts)
        for start in range(0, len(steps), size):
            candidate = _with_steps(plan, [*steps[:start], *steps[start + size :]])
            if budget.fails(candidate):
                steps = list(candidate.cell.steps)
                plan = candidate
                parts = max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(steps), parts * 2)
    return plan


def _with_smaller_sends(plan: Plan, budget: _Budget) -> Plan:
    """Return the plan with one message, or one recipient, in each step that sends, outside of blocks, where that still fails.

    Of several recipients the first with which it fails stays.
    """
    for number in range(len(plan.cell.steps)):
        for smaller in (_with_one_message, _with_one_recipient):
            candidates = (_with_action(plan, number, action) for action in smaller(plan.cell.steps[number].action))
            plan = next((candidate for candidate in candidates if budget.fails(candidate)), plan)
    return plan


def _with_one_message(action: Action) -> Iterator[Send]:
    """Yield the action with one message, if it sends several."""
    if isinstance(action, Send) and action.count > 1:
        yield action.model_copy(update={"count": 1, "concurrency": 1})


def _with_one_recipient(action: Action) -> Iterator[Send]:
    """Yield the action with each of its recipients alone, if it sends to several."""
    if isinstance(action, Send) and len(action.to) > 1:
        yield from (action.model_copy(update={"to": (recipient,)}) for recipient in action.to)


def _with_fewer_parameters(plan: Plan, budget: _Budget) -> Plan:
    """Return the plan with the defaults of its parameters, of all at once or of those for which that still fails."""
    settings = list(_settings_of(plan.cell.topology))
    groups = [settings, *([one] for one in settings)] if len(settings) > 1 else [settings] * len(settings)
    for left_out in groups:
        candidate = _with_topology(plan, _without_settings(plan.cell.topology, left_out))
        if budget.fails(candidate):
            plan = candidate
            if left_out is settings:
                break
    return plan


def _settings_of(topology: Topology) -> Iterator[_Setting]:
    """Yield each parameter that a topology sets: the server for which it does, '' for all, and the parameter's name."""
    yield from (("", name) for name in topology.transport)
    for server in topology.servers:
        yield from ((server.name, name) for name in server.transport)


def _without_settings(topology: Topology, left_out: Iterable[_Setting]) -> Topology:
    """Return a topology without some of its parameters (`_settings_of`)."""
    gone = set(left_out)
    servers = tuple(
        server.model_copy(
            update={
                "transport": {key: value for key, value in server.transport.items() if (server.name, key) not in gone}
            }
        )
        for server in topology.servers
    )
    common = {key: value for key, value in topology.transport.items() if ("", key) not in gone}
    return _changed(topology, servers=servers, transport=common)


def _with_fewer_servers(plan: Plan, budget: _Budget) -> Plan:
    """Return the plan without the servers that it does not need: they are left out one by one while the plan still fails.

    At least one stays, and every one whose mailbox a message is from or for.
    """
    named = {
        address.lower()
        for step in plan.cell.all_steps
        if isinstance(step.action, Send)
        for address in (*step.action.to, step.action.sender)
    }
    kept = {mailbox.server for mailbox in plan.cell.topology.mailboxes if mailbox.address.lower() in named}
    for server in plan.cell.topology.servers:
        if server.name not in kept and len(plan.cell.topology.servers) > 1:
            candidate = _with_topology(plan, _without_server(plan.cell.topology, server.name))
            if budget.fails(candidate):
                plan = candidate
    return plan


def _without_server(topology: Topology, name: str) -> Topology:
    """Return a topology without a server, its mailboxes and rights, and the routes that it alone has or that lead to it alone.

    Where this leaves its site without a server, and `sites` does not name it, its links and its entry in `hub_sites` go too.
    """
    servers = tuple(server for server in topology.servers if server.name != name)
    routes = (
        route.model_copy(
            update={
                "next_hops": tuple(hop for hop in route.next_hops if hop != name),
                "servers": tuple(server for server in route.servers if server != name),
            }
        )
        for route in topology.routes
        if route.servers != (name,)  # without servers it would become a route of all
    )
    sites = {*topology.sites, *(server.site for server in servers)}
    return _changed(
        topology,
        servers=servers,
        mailboxes=tuple(mailbox for mailbox in topology.mailboxes if mailbox.server != name),
        routes=tuple(route for route in routes if route.next_hops),
        rights=tuple(right for right in topology.rights if name not in (right.server, right.peer)),
        site_links=tuple(link for link in topology.site_links if sites.issuperset(link.between)),
        hub_sites=tuple(site for site in topology.hub_sites if site in sites),
    )


def _changed(topology: Topology, **fields: Any) -> Topology:
    """Return a topology with other values of some fields. A copy would keep what the topology has cached about its servers."""
    return Topology(**{name: getattr(topology, name) for name in Topology.model_fields} | fields)


def _steps_of_blocks(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps, with those of `parallel` and single `repeat` blocks in place of the block."""
    for step in steps:
        if isinstance(step.action, Parallel) or (isinstance(step.action, Repeat) and step.action.times == 1):
            yield from _steps_of_blocks(step.action.steps)
        else:
            yield step


def _with_steps(plan: Plan, steps: Sequence[Step]) -> Plan:
    """Return the plan with these steps in place of its own, numbered anew."""
    cell: Cell = plan.cell.model_copy(update={"steps": numbered(steps)})
    return Plan(name=plan.name, cell=cell, faults=plan.faults)


def _with_action(plan: Plan, number: int, action: Action) -> Plan:
    """Return the plan with another action in its step with this number, from 0."""
    steps = list(plan.cell.steps)
    steps[number] = steps[number].model_copy(update={"action": action})
    return _with_steps(plan, steps)


def _with_topology(plan: Plan, topology: Topology) -> Plan:
    """Return the plan with this topology; one that its steps do not fit is for `fails` to refuse."""
    return Plan(name=plan.name, cell=plan.cell.model_copy(update={"topology": topology}), faults=plan.faults)
