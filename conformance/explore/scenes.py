"""Draws the scene of a random plan: a topology, and what happens in it without faults.

A scene is a list of actions with the documented times of their beginnings. Sends run in the background, so that the next action comes
at its time, however long they take. `random_plans` calls `draw_scene`. What may be drawn, and how often, stands in `grammar`;
`features` are the words of `grammar.FEATURES` that this plan may use; `rng` is the generator of the plan.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import JsonValue

from conformance.explore import grammar
from conformance.parameters import DEFAULTS
from conformance.scenarios.steps.action import Action
from conformance.scenarios.steps.breaking import Answer
from conformance.scenarios.steps.nodes import Activate, Configure, Redirect, Resubmit
from conformance.scenarios.steps.sending import Send, Submit
from conformance.topology import Topology

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scene:
    """A topology, actions with the times at which they begin, the time at which the scene ends, and what may be drawn."""

    topology: Topology
    actions: tuple[tuple[float, Action], ...]
    end: float
    features: frozenset[str]


def draw_weighted(rng: random.Random, weights: Mapping[T, int]) -> T:
    """Return one of the keys of `weights`, drawn in proportion to their values."""
    return rng.choices(tuple(weights), tuple(weights.values()))[0]


def draw_scene(rng: random.Random, bias: grammar.Bias) -> Scene:
    """Return a random scene: half of the scenes may use every feature, the others a random half (swarm testing).

    Where `bias` leaves nothing out, every scene may use all features.
    """
    features = frozenset(grammar.FEATURES)
    if rng.random() < 0.5 and bias.leaves_out:  # swarm testing (Groce and others, 2012)
        features = frozenset(feature for feature in grammar.FEATURES if rng.random() < 0.5)
    topology = _draw_topology(rng, features)
    return _draw_actions(rng, topology, features)


def _draw_topology(rng: random.Random, features: frozenset[str]) -> Topology:
    """Return a topology of one of the shapes in `grammar`, of at most MAX_SERVERS servers.

    It may have parameters for all servers, and others for one of them.
    """
    servers: list[dict[str, JsonValue]] = []
    sites = ["NewYork"] if rng.random() < 0.5 else ["NewYork", "London"]
    for group in draw_weighted(rng, grammar.SHAPES):
        for _ in range(rng.randint(*group.many)):
            number = sum(server["role"] == group.role for server in servers) + 1
            place = rng.choice([site for site in group.sites if site in sites] or group.sites[:1])
            servers.append(
                {
                    "name": f"{group.prefix}{number}",
                    "role": group.role,
                    "generation": rng.choice(group.generations),
                    "site": place,
                    "dag": group.dag,
                }
            )
    servers = servers[: grammar.MAX_SERVERS]
    transport = dict(grammar.QUICK) if "quick" in features and rng.random() < 0.6 else {}
    if "parameters" in features:
        transport |= _draw_parameters(rng)
        if rng.random() < 0.2:
            own = _draw_parameters(rng)
            rng.choice(servers)["transport"] = own if _is_valid({**transport, **own}) else {}
    used = sorted({str(server["site"]) for server in servers})
    links = [
        {"between": [one, other], "cost": rng.choice(grammar.COST_OF_SITE_LINKS)}
        for number, one in enumerate(used)
        for other in used[number + 1 :]
    ]
    return Topology.model_validate(
        {
            "name": "random",
            "servers": servers,
            "mailboxes": list(_mailboxes(servers)),
            "sites": used,
            "site-links": links,
            "sinks": [
                {"name": "outside", "domains": ["outside.test", "legacy.test", "*"]},
                {"name": "outside2", "domains": ["second.test"]},
            ],
            "routes": list(_routes(servers)),
            "transport": transport,
        }
    )


def _draw_parameters(rng: random.Random) -> dict[str, JsonValue]:
    """Return values for some parameters, which a server accepts together (`_is_valid`); {} if none is drawn."""
    names = rng.sample(sorted(DEFAULTS), rng.choice(grammar.CHANGED_PARAMETERS))
    drawn = {name: rng.choice(grammar.values_of(name)) for name in names}
    return drawn if _is_valid(drawn) else {**drawn, "MaxRetriesForRemoteSiteShadow": 0}


def _is_valid(parameters: Mapping[str, JsonValue]) -> bool:
    """Return whether a server accepts the parameters together: with LocalOnly there are no tries at remote sites (SR-CFG-02)."""
    return (
        parameters.get("ShadowMessagePreferenceSetting") != "LocalOnly"
        or parameters.get("MaxRetriesForRemoteSiteShadow") == 0
    )


def _mailboxes(servers: Sequence[Mapping[str, JsonValue]]) -> Iterator[dict[str, JsonValue]]:
    """Yield the mailboxes, as a topology file has them: two on the first host, one on each other.

    Hosts are the mailbox servers; where there are none, the last hub.
    """
    names = iter(("bob", "carol", "dave", "erin", "grace", "heidi", "ivan"))
    hosts = [server for server in servers if server["role"] == "mailbox"]
    hosts = hosts or [server for server in servers if server["role"] == "hub"][-1:]
    for number, server in enumerate(hosts, 1):
        for _ in range(2 if number == 1 else 1):
            yield {"address": f"{next(names)}@corp.test", "database": f"DB{number}", "server": server["name"]}


def _routes(servers: Sequence[Mapping[str, JsonValue]]) -> Iterator[dict[str, JsonValue]]:
    """Yield the routes, as a topology file has them.

    Where there are Edge servers, all that leaves goes over them. Else mail for legacy.test goes over the hubs, if there are
    mailbox servers too; if there are only hubs, mail for outside.test goes from the first over the others.
    """
    names = {role: [s["name"] for s in servers if s["role"] == role] for role in ("mailbox", "hub", "edge")}
    inner = [*names["hub"], *names["mailbox"]]
    if names["edge"]:
        yield {"domain": "corp.test", "next-hops": names["hub"] or names["mailbox"], "servers": names["edge"]}
        yield {"domain": "*", "next-hops": names["edge"], "servers": inner}
        yield {"domain": "second.test", "next-hops": ["outside2"], "servers": names["edge"]}
        yield {"domain": "*", "next-hops": ["outside"], "servers": names["edge"]}
        return
    if names["hub"] and names["mailbox"]:
        yield {"domain": "legacy.test", "next-hops": names["hub"], "servers": names["mailbox"]}
        yield {"domain": "legacy.test", "next-hops": ["outside"], "servers": names["hub"]}
    elif names["hub"]:
        first, *others = names["hub"]
        yield {"domain": "outside.test", "next-hops": others, "servers": [first]}
        yield {"domain": "outside.test", "next-hops": ["outside"], "servers": others}
    yield {"domain": "second.test", "next-hops": ["outside2"]}
    yield {"domain": "*", "next-hops": ["outside"]}


def _draw_actions(rng: random.Random, topology: Topology, features: frozenset[str]) -> Scene:
    """Return the scene: sends, trouble at the sinks, and administration, with pauses between them."""
    drawn: list[Action] = [
        _draw_send(rng, topology, features, number) for number in range(1, draw_weighted(rng, grammar.SENDS) + 1)
    ]
    for kind, weight in grammar.ADMINISTRATION.items():
        if kind in features and rng.random() < weight / 20:
            drawn += _draw_administration(rng, topology, kind)
    rng.shuffle(drawn)
    if "sink-trouble" in features and rng.random() < 0.7:
        drawn = _with_sink_trouble(rng, topology, drawn)
    actions, t = list[tuple[float, Action]](), 0.0
    for action in drawn:
        actions.append((t, action))
        t += rng.choice(grammar.PAUSES)
    return Scene(
        topology=topology, actions=tuple(actions), end=t + draw_weighted(rng, grammar.TAILS), features=features
    )


def _draw_send(rng: random.Random, topology: Topology, features: frozenset[str], number: int) -> Action:
    """Return the step that sends message `m<number>`: a send from outside, or a submission by a mailbox's owner."""
    addresses = [mailbox.address for mailbox in topology.mailboxes]
    legacy = [grammar.LEGACY] if any(route.domain == "legacy.test" for route in topology.routes) else []
    many = draw_weighted(rng, grammar.RECIPIENTS) if "several-recipients" in features else 1
    pool = [*rng.choices(addresses, k=2), *rng.sample([*grammar.OUTSIDE, *legacy], 2)]
    fields: dict[str, object] = {
        "as": f"m{number}",
        "to": list(dict.fromkeys(rng.sample(pool, many))),
        "count": draw_weighted(rng, grammar.COUNTS),
        "background": True,
    }
    senders = grammar.SENDERS if "null-senders" in features else {name: 1 for name in grammar.SENDERS if name}
    if "one-session" in features and rng.random() < 0.4:
        fields["sessions"] = "one"
    if "odd-messages" in features:
        fields |= {"message": draw_weighted(rng, grammar.MESSAGES), "size": rng.choice(grammar.SIZES)}
    if "abandoned" in features and rng.random() < 0.1:
        fields["abandon"] = rng.choice(("before-dot", "at-dot", "after-reply"))
    if "retries" in features and rng.random() < 0.5:
        fields["retry"] = {"every": rng.choice((1.0, 60.0, 900.0)), "times": rng.randint(1, 4)}
    hosts = [server.name for server in topology.servers if server.role == "mailbox"]
    if "submission" in features and hosts and rng.random() < 0.25:
        inside = [address for address in addresses if address not in fields["to"]] or addresses  # type: ignore[operator]
        return Submit.model_validate({**fields, "from": rng.choice(inside), "via": [rng.choice(hosts)]})
    via = rng.sample([server.name for server in topology.servers], rng.choice((1, 1, 2)))
    return Send.model_validate(
        {**fields, "from": draw_weighted(rng, senders), "via": via if "retry" in fields else via[:1]}
    )


def _draw_administration(rng: random.Random, topology: Topology, kind: str) -> Iterator[Action]:
    """Yield one act of an administrator, of a kind in `grammar.ADMINISTRATION`.

    Nothing where the topology has no occasion for that kind, or the drawn value would be refused.
    """
    hosts = [server.name for server in topology.servers if server.role == "mailbox"]
    newer = [server.name for server in topology.servers if server.role == "mailbox" and server.generation != "ex2010"]
    databases = sorted({mailbox.database for mailbox in topology.mailboxes if mailbox.server in hosts})
    match kind:
        case "reload":
            name = rng.choice([name for name in sorted(DEFAULTS) if name != "ShadowMessagePreferenceSetting"])
            value = rng.choice(grammar.values_of(name))
            preference = topology.transport.get("ShadowMessagePreferenceSetting")
            if not (name == "MaxRetriesForRemoteSiteShadow" and preference == "LocalOnly"):
                node = rng.choice((["all"], [rng.choice(topology.servers).name]))
                yield Configure.model_validate({"node": node, "transport": {name: value}})
        case "activate" if databases and len(hosts) > 1:
            yield Activate(database=(rng.choice(databases),), on=rng.choice(hosts))
        case "redirect" if len(newer) > 1:
            sender, to = rng.sample(newer, 2)
            yield Redirect.model_validate({"from": sender, "to": to})
        case "resubmit" if databases and newer:
            yield Resubmit(database=rng.choice(databases), on=rng.choice(newer))


def _with_sink_trouble(rng: random.Random, topology: Topology, actions: Sequence[Action]) -> list[Action]:
    """Return the actions with a sink that refuses mail from some action on: always, once or three times.

    In half of the cases a later action makes it accept mail again.
    """
    stores = [topology.store_name(mailbox.server) for mailbox in topology.mailboxes]
    sink, at = rng.choice(("outside", *sorted(set(stores)))), rng.choice(grammar.SINK_PLACES)
    begins = rng.randint(0, len(actions))
    refusing = Answer(
        sink=sink, at=at, reply=draw_weighted(rng, grammar.SINK_REPLIES), times=rng.choice((None, None, 1, 3))
    )
    found = [*actions[:begins], refusing, *actions[begins:]]
    if rng.random() < 0.5:
        found.insert(rng.randint(begins + 1, len(found)), Answer(sink=sink, at=at, reply="accept"))
    return found
