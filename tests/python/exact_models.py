"""Two oracles for the policy "exact", over flows on arcs and over enumerated trees.

`lp_rates` is what any plan may reach, with coding or without; `tree_rates` what plans that copy
and add, but do not code, may reach. Both are lexicographic max-min over the collectives.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations

import numpy as np
from exact_lexicographic import Goal, Program, lexicographic, ordered_levels
from exact_sessions import Instance, Session, all_sessions

Term = tuple[int, float]  # column and coefficient


@dataclass
class Model:
    """A program with the rate of each collective, all rates divided by `scale`."""

    scale: float
    weights: list[float]
    program: Program = field(default_factory=Program)
    goals: list[Goal] = field(default_factory=list)

    def rates(self) -> list[float]:
        return [rate * self.scale for rate in lexicographic(self.program, self.goals)]

    def ascending_levels(self) -> list[float]:
        """rate / weight in ascending order, by the method without freezing."""
        levels = ordered_levels(self.program, self.goals)
        return [level * self.scale / max(self.weights) for level in levels]


def lp_rates(instance: Instance) -> list[float]:
    """By collective, in bit/s."""
    return arc_model(instance).rates()


def tree_rates(instance: Instance) -> list[float]:
    """By collective, in bit/s. For a few nodes only: it enumerates every tree."""
    return tree_model(instance).rates()


def arc_model(instance: Instance) -> Model:
    """A flow to each destination; a session's load on a link is the largest of its flows."""
    model, rates = _start(instance)
    flows = _Arcs(instance, model.program)
    unicasts: dict[str, list[tuple[str, Term]]] = {}
    for session, rate in zip(all_sessions(instance), rates, strict=True):
        if len(session.others) == 1:
            [other] = session.others
            tail, head = (other, session.root) if session.reduce else (session.root, other)
            unicasts.setdefault(tail, []).append((head, rate))
            continue
        load = flows.add_load()
        for other in session.others:
            tail, head = (other, session.root) if session.reduce else (session.root, other)
            flows.bound_by(load, flows.add_flow(tail, [(head, rate)]))
    for tail, demands in unicasts.items():  # unicasts from one node are one flow, to many nodes
        flows.loads.append(flows.add_flow(tail, demands))
    _limit(model, instance, lambda link: [(load + link, 1.0) for load in flows.loads])
    return model


def tree_model(instance: Instance) -> Model:
    """A rate for each tree; a session's rate is the sum of its trees'."""
    model, rates = _start(instance)
    usage: list[list[Term]] = [[] for _ in instance.links]
    known: dict[tuple[str, frozenset[str], bool], list[list[int]]] = {}
    for session, rate in zip(all_sessions(instance), rates, strict=True):
        key = (session.root, frozenset(session.others), session.reduce)
        if key not in known:
            known[key] = list(steiner_trees(instance, session))
        first = model.program.add_columns(len(known[key]))
        for column, tree in enumerate(known[key], start=first):
            for link in tree:
                usage[link].append((column, 1.0))
        columns = range(first, model.program.columns)
        model.program.equal.add([*((column, 1.0) for column in columns), (rate[0], -rate[1])], 0.0)
    _limit(model, instance, lambda link: usage[link])
    return model


def steiner_trees(instance: Instance, session: Session) -> Iterator[list[int]]:
    """Every tree from the root to the others, relays included, with no leaf but the others.

    As numbers of links. A reduce has its trees on the reversed links.
    """
    number = {link: index for index, link in enumerate(instance.links)}
    into: dict[str, dict[str, int]] = {name: {} for name in instance.nodes}
    for (tail, head), index in number.items():
        above, below = (head, tail) if session.reduce else (tail, head)
        into[below][above] = index
    spare = [name for name in instance.nodes if name != session.root and name not in session.others]
    subsets = chain.from_iterable(combinations(spare, size) for size in range(len(spare) + 1))
    for relays in subsets:
        yield from _spanning(into, session.root, [*relays, *session.others], set(relays))


def _spanning(
    into: dict[str, dict[str, int]], root: str, names: Sequence[str], relays: set[str]
) -> Iterator[list[int]]:
    """Trees over the root and all of `names`, in which each relay has a child."""
    inside = {root, *names}
    parent: dict[str, str] = {}

    def choose(position: int) -> Iterator[list[int]]:
        if position == len(names):
            if relays <= set(parent.values()):
                yield [into[name][above] for name, above in parent.items()]
            return
        name = names[position]
        for above in into[name]:
            if above not in inside:
                continue
            top = above
            while top in parent:
                top = parent[top]
            if top == name:  # a cycle: `name` has no parent yet
                continue
            parent[name] = above
            yield from choose(position + 1)
            del parent[name]

    return choose(0)


def _start(instance: Instance) -> tuple[Model, list[Term]]:
    """The model with its rates, and by session what its rate is: a column times a fraction."""
    weights = instance.weights()
    model = Model(instance.largest(), weights)
    program = model.program
    rates: list[Term] = []
    shares: dict[tuple[int, int], int] = {}
    first = program.add_columns(len(instance.groups))
    model.goals = [Goal(first + number, weight / max(weights)) for number, weight in enumerate(weights)]
    for session in all_sessions(instance):
        if session.share is None:
            rates.append((first + session.group, session.fraction))
            continue
        key = (session.group, session.share)
        if key not in shares:
            shares[key] = program.add_columns()
        rates.append((shares[key], 1.0))
    for group in {group for group, _ in shares}:
        parts = [(column, 1.0) for (owner, _), column in shares.items() if owner == group]
        program.equal.add([*parts, (first + group, -1.0)], 0.0)
    return model, rates


class _Arcs:
    """Blocks of a column a link."""

    def __init__(self, instance: Instance, program: Program) -> None:
        self._program = program
        self._number = {name: index for index, name in enumerate(instance.nodes)}
        self._count = len(instance.links)
        self._tails = np.array([self._number[tail] for tail, _ in instance.links], dtype=np.int64)
        self._heads = np.array([self._number[head] for _, head in instance.links], dtype=np.int64)
        self.loads: list[int] = []  # the first column of each block that takes up capacity

    def add_load(self) -> int:
        self.loads.append(self._program.add_columns(self._count))
        return self.loads[-1]

    def add_flow(self, tail: str, demands: Sequence[tuple[str, Term]]) -> int:
        """What enters a node less what leaves it is what it demands; the tail's row follows."""
        first = self._program.add_columns(self._count)
        links = np.arange(self._count, dtype=np.int64)
        source = self._number[tail]
        nodes = len(self._number)
        # The rows of the nodes but the source, which goes behind them and is cut off.
        row = np.array([nodes if v == source else v - (v > source) for v in range(nodes)], dtype=np.int64)
        rows = np.concatenate([row[self._heads], row[self._tails]])
        columns = np.concatenate([links + first, links + first])
        values = np.concatenate([np.ones(self._count), -np.ones(self._count)])
        kept = rows < nodes
        wanted = [(row[self._number[head]], column, -part) for head, (column, part) in demands]
        self._program.equal.add_block(
            np.concatenate([rows[kept], np.array([w[0] for w in wanted], dtype=np.int64)]),
            np.concatenate([columns[kept], np.array([w[1] for w in wanted], dtype=np.int64)]),
            np.concatenate([values[kept], np.array([w[2] for w in wanted])]),
            np.zeros(nodes - 1),
        )
        return first

    def bound_by(self, load: int, flow: int) -> None:
        links = np.arange(self._count, dtype=np.int64)
        self._program.at_most.add_block(
            np.concatenate([links, links]),
            np.concatenate([links + flow, links + load]),
            np.concatenate([np.ones(self._count), -np.ones(self._count)]),
            np.zeros(self._count),
        )


def _limit(model: Model, instance: Instance, usage: Callable[[int], list[Term]]) -> None:
    """Capacities of links, and what leaves and enters a node."""
    leaving: dict[str, list[Term]] = {}
    entering: dict[str, list[Term]] = {}
    for number, ((tail, head), capacity) in enumerate(instance.links.items()):
        terms = usage(number)
        model.program.at_most.add(terms, capacity / model.scale)
        leaving.setdefault(tail, []).extend(terms)
        entering.setdefault(head, []).extend(terms)
    for by_node, limits in ((leaving, instance.egress), (entering, instance.ingress)):
        for name, limit in limits.items():
            if by_node.get(name):
                model.program.at_most.add(by_node[name], limit / model.scale)
