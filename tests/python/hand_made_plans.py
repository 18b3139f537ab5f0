"""Small plans as JSON whose rates, loads and proofs can be worked out by hand."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Link = tuple[str, str]
Streams = Sequence[tuple[float, Sequence[Link]]]

# The planner's price of a bit per second for an hour, at 1 USD a GB.
USD_PER_HOUR = 3600 / 8e9


def collective(
    number: int, rate: float, bound: float, sessions: Sequence[int], **more: Any
) -> dict[str, Any]:
    size = 1_000_000
    return {
        "id": str(number),
        "tenant": ("alice", "bob", "carol")[number % 3],
        "op": "broadcast",
        "weight": 1.0,
        "bytes": size,
        "lp_rate_mbps": rate,
        "rate_mbps": rate,
        "bound_mbps": bound,
        "completion_seconds": 8 * size / (rate * 1e6) if rate > 0 else None,
        "cost_usd_per_hour": 0.0,
        "sessions": [str(session) for session in sessions],
        **more,
    }


def session(number: int, of: int, members: Sequence[str], streams: Streams, **more: Any) -> dict[str, Any]:
    rate = sum(stream_rate for stream_rate, _ in streams)
    return {
        "id": str(number),
        "collective": str(of),
        "kind": "multicast",
        "root": members[0],
        "members": list(members),
        "offset_bytes": 0,
        "size_bytes": 1_000_000,
        "pair": None,
        "lp_rate_mbps": rate,
        "rate_mbps": rate,
        "paths": [],
        "streams": [
            {"links": [list(link) for link in links], "rate_mbps": stream_rate, "coded": False}
            for stream_rate, links in streams
        ],
        **more,
    }


def level(
    bound: float,
    collectives: Sequence[int],
    packings: Mapping[int, Sequence[tuple[Sequence[str], float]]],
    **duals: Any,
) -> dict[str, Any]:
    return {
        "bound_mbps": bound,
        "collectives": [str(number) for number in collectives],
        "links": [],
        "egress": [],
        "ingress": [],
        "budget": 0.0,
        "packings": [
            {
                "sessions": [str(number)],
                "cuts": [{"far_side": list(names), "length": length} for names, length in cuts],
            }
            for number, cuts in packings.items()
        ],
        **duals,
    }


def plan(
    capacities: Mapping[Link, float],
    collectives: Sequence[dict[str, Any]],
    sessions: Sequence[dict[str, Any]],
    levels: Sequence[dict[str, Any]] = (),
    *,
    limits: Mapping[str, tuple[float | None, float | None]] | None = None,
    prices: Mapping[Link, float] | None = None,
    cost_bound: float | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Loads, totals and costs follow from the streams."""
    prices = prices or {}
    load = dict.fromkeys(capacities, 0.0)
    for item in sessions:
        for stream in item["streams"]:
            for tail, head in stream["links"]:
                load[tail, head] += stream["rate_mbps"]
    rates = [item["rate_mbps"] for item in collectives]
    per_weight = [item["rate_mbps"] / item["weight"] for item in collectives]
    squares = sum(value * value for value in per_weight)
    tenants = sorted({item["tenant"] for item in collectives})
    cost = sum(load[link] * 1e6 * price * USD_PER_HOUR for link, price in prices.items())
    return {
        "format": "square.plan/1",
        "epoch": 1,
        "policy": "exact",
        "solve_seconds": 0.001,
        "min_rate_mbps": min(rates, default=0.0),
        "total_rate_mbps": sum(rates),
        "jain": sum(per_weight) ** 2 / (len(per_weight) * squares) if squares > 0 else 1.0,
        "cost_usd_per_hour": cost,
        "budget_usd_per_hour": None,
        "realised": True,
        "headroom": None,
        "changes": None,
        "tenants": [
            {
                "name": name,
                "weight": 1.0,
                "rate_mbps": sum(item["rate_mbps"] for item in collectives if item["tenant"] == name),
            }
            for name in tenants
        ],
        "certificate": {
            "level_bound_mbps": levels[0]["bound_mbps"] if levels and cost_bound is None else None,
            "cuts": [],
            "levels": list(levels),
            "cost_bound_usd_per_hour": cost_bound,
        },
        "collectives": list(collectives),
        "sessions": list(sessions),
        **_overlay(capacities, load, limits or {}, prices),
        **more,
    }


def _overlay(
    capacities: Mapping[Link, float],
    load: Mapping[Link, float],
    limits: Mapping[str, tuple[float | None, float | None]],
    prices: Mapping[Link, float],
) -> dict[str, Any]:
    return {
        "nodes": [
            {
                "name": name,
                "egress_mbps": limits.get(name, (None, None))[0],
                "ingress_mbps": limits.get(name, (None, None))[1],
            }
            for name in sorted({name for link in capacities for name in link})
        ],
        "links": [
            {
                "from": tail,
                "to": head,
                "capacity_mbps": capacity,
                "load_mbps": load[tail, head],
                "latency_ms": 0.0,
                "price_usd_per_gb": prices.get((tail, head), 0.0),
            }
            for (tail, head), capacity in capacities.items()
        ],
    }


def two_levels(**more: Any) -> dict[str, Any]:
    """Alice (a to b, c) and bob (b to c) share the 40 into c; carol (a to b) has what is left of 100."""
    return plan(
        {("a", "b"): 100, ("b", "a"): 50, ("a", "c"): 30, ("b", "c"): 10},
        [collective(0, 20, 20, [0]), collective(1, 20, 20, [1]), collective(2, 80, 80, [2])],
        [
            session(0, 0, ["a", "b", "c"], [(20, [("a", "b"), ("a", "c")])]),
            session(1, 1, ["b", "c"], [(10, [("b", "c")]), (10, [("b", "a"), ("a", "c")])]),
            session(2, 2, ["a", "b"], [(80, [("a", "b")])]),
        ],
        [
            level(
                20,
                [0, 1],
                {0: [(["c"], 0.5)], 1: [(["c"], 0.5)]},
                links=[["a", "c", 0.5], ["b", "c", 0.5]],
            ),
            level(80, [2], {0: [(["b"], 1.0)], 2: [(["b"], 1.0)]}, links=[["a", "b", 1.0]]),
        ],
        **more,
    )


def without_streams() -> dict[str, Any]:
    document = two_levels(realised=False, min_rate_mbps=0.0, total_rate_mbps=0.0, jain=1.0)
    for item in document["collectives"]:
        item |= {"rate_mbps": 0.0, "completion_seconds": None}
    for item in document["sessions"]:
        item |= {"rate_mbps": 0.0, "streams": []}
    for item in [*document["tenants"], *document["links"]]:
        item |= {"rate_mbps": 0.0} if "name" in item else {"load_mbps": 0.0}
    return document


def node_limit() -> dict[str, Any]:
    """Three copies leave a, which may send 30: no cut shows that, three together do."""
    third = 1 / 3
    return plan(
        {("a", "b"): 100, ("a", "c"): 100, ("a", "d"): 100},
        [collective(0, 10, 10, [0])],
        [session(0, 0, ["a", "b", "c", "d"], [(10, [("a", "b"), ("a", "c"), ("a", "d")])])],
        [level(10, [0], {0: [([name], third) for name in "bcd"]}, egress=[["a", third]])],
        limits={"a": (30, None)},
    )


def reduce() -> dict[str, Any]:
    """b and c together may send 15 to a."""
    return plan(
        {("b", "a"): 10, ("c", "a"): 5, ("b", "c"): 100, ("c", "b"): 100},
        [collective(0, 15, 15, [0], op="reduce")],
        [
            session(
                0,
                0,
                ["a", "b", "c"],
                [(10, [("c", "b"), ("b", "a")]), (5, [("b", "c"), ("c", "a")])],
                kind="reduce",
            )
        ],
        [level(15, [0], {0: [(["b", "c"], 1.0)]}, links=[["b", "a", 1.0], ["c", "a", 1.0]])],
    )


def all_reduce() -> dict[str, Any]:
    """Whichever root a share has, it crosses a -> b once: as a multicast from a or a reduce to b."""
    sessions = []
    for share, root in enumerate("ab"):
        other = "b" if root == "a" else "a"
        for half, kind in enumerate(("reduce", "multicast")):
            link = (other, root) if kind == "reduce" else (root, other)
            number = 2 * share + half
            sessions.append(
                session(
                    number,
                    0,
                    [root, other],
                    [(5, [link])],
                    kind=kind,
                    pair=str(number ^ 1),
                    offset_bytes=share * 500_000,
                    size_bytes=500_000,
                )
            )
    return plan(
        {("a", "b"): 10, ("b", "a"): 10},
        [collective(0, 10, 10, range(4), op="all_reduce")],
        sessions,
        [level(10, [0], {1: [(["b"], 1.0)], 2: [(["a"], 1.0)]}, links=[["a", "b", 1.0]])],
    )


def least_cost() -> dict[str, Any]:
    """10 Mbit/s at 0.1 USD a GB are 0.45 USD an hour."""
    price = 0.1
    length = price * USD_PER_HOUR
    return plan(
        {("a", "b"): 40},
        [collective(0, 10, 10, [0], bound_mbps=None, cost_usd_per_hour=length * 1e7)],
        [session(0, 0, ["a", "b"], [(10, [("a", "b")])])],
        [level(0, [0], {0: [(["b"], length)]})],
        prices={("a", "b"): price},
        cost_bound=length * 1e7,
    )


def budget() -> dict[str, Any]:
    """The link would carry 40; 0.45 USD an hour pay for 10 of it."""
    price = 0.1
    return plan(
        {("a", "b"): 40},
        [collective(0, 10, 10, [0], cost_usd_per_hour=0.45)],
        [session(0, 0, ["a", "b"], [(10, [("a", "b")])])],
        [level(10, [0], {0: [(["b"], 1.0)]}, budget=1.0 / (price * USD_PER_HOUR))],
        prices={("a", "b"): price},
        budget_usd_per_hour=0.45,
    )


def mesh(nodes: int, collectives: int) -> dict[str, Any]:
    """Every node linked to every other; broadcasts over one link each, by a policy that proves nothing."""
    names = [f"n{number:02}" for number in range(nodes)]
    capacities = {(a, b): 10.0 for a in names for b in names if a != b}
    made, sessions = [], []
    for number in range(collectives):
        around, step = divmod(number, nodes)
        tail, head = names[step], names[(step + 1 + around) % nodes]
        made.append(collective(number, 10, 10, [number], bound_mbps=None))
        sessions.append(session(number, number, [tail, head], [(10, [(tail, head)])]))
    return plan(capacities, made, sessions, policy="square")


def ring(nodes: int) -> dict[str, Any]:
    """Sparse: each node linked to its two neighbours; one broadcast runs half way round."""
    names = [f"site-{number:02}" for number in range(nodes)]
    pairs = [(names[i], names[(i + 1) % nodes]) for i in range(nodes)]
    capacities = {link: 10.0 for a, b in pairs for link in ((a, b), (b, a))}
    return plan(
        capacities,
        [collective(0, 4, 10, [0], bound_mbps=None)],
        [session(0, 0, names[: nodes // 2], [(4, pairs[: nodes // 2 - 1])])],
        limits={names[0]: (8, None)},
        policy="square",
    )


def text(document: dict[str, Any]) -> str:
    return json.dumps(document)
