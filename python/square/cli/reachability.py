"""Which nodes of a topology can reach which."""

from collections.abc import Sequence
from dataclasses import dataclass

# What the groups cannot reach is listed for so many of them: it grows with their square.
MAX_GROUPS = 1_000


@dataclass(frozen=True)
class Reachability:
    """Groups of nodes by number: those of one group all reach one another."""

    groups: list[list[int]]
    # By group, the groups that no path leads to; None where there are more than MAX_GROUPS.
    unreachable: list[list[int]] | None

    @property
    def strongly_connected(self) -> bool:
        return len(self.groups) <= 1


def reachability(node_count: int, links: Sequence[tuple[int, int]]) -> Reachability:
    """Groups are sorted by size, largest first, then by their first node."""
    successors: list[list[int]] = [[] for _ in range(node_count)]
    for tail, head in links:
        successors[tail].append(head)
    found = _components(successors)
    reached = _closure(found, successors) if len(found) <= MAX_GROUPS else None
    order = sorted(range(len(found)), key=lambda number: (-len(found[number]), min(found[number])))
    groups = [sorted(found[number]) for number in order]
    if reached is None:
        return Reachability(groups, None)
    return Reachability(
        groups,
        [[place for place, to in enumerate(order) if not reached[number] >> to & 1] for number in order],
    )


def _components(successors: list[list[int]]) -> list[list[int]]:
    """Strongly connected components, those that a component leads to before it.

    Tarjan, SIAM Journal on Computing 1(2), 1972, with a stack of its own in place of recursion.
    """
    unseen = -1
    order = [unseen] * len(successors)
    lowest = [0] * len(successors)
    open_nodes: list[int] = []
    is_open = [False] * len(successors)
    components: list[list[int]] = []
    seen = 0
    for root in range(len(successors)):
        if order[root] != unseen:
            continue
        walk = [(root, iter(successors[root]))]
        while walk:
            node, rest = walk[-1]
            if order[node] == unseen:
                order[node] = lowest[node] = seen
                seen += 1
                open_nodes.append(node)
                is_open[node] = True
            for head in rest:
                if order[head] == unseen:
                    walk.append((head, iter(successors[head])))
                    break
                if is_open[head]:
                    lowest[node] = min(lowest[node], order[head])
            else:
                walk.pop()
                if walk:
                    lowest[walk[-1][0]] = min(lowest[walk[-1][0]], lowest[node])
                if lowest[node] == order[node]:
                    components.append(_close(node, open_nodes, is_open))
    return components


def _close(node: int, open_nodes: list[int], is_open: list[bool]) -> list[int]:
    """Takes the component that ``node`` began off the open nodes."""
    component: list[int] = []
    while not component or component[-1] != node:
        component.append(open_nodes.pop())
        is_open[component[-1]] = False
    return component


def _closure(components: list[list[int]], successors: list[list[int]]) -> list[int]:
    """By component, the components that it reaches, itself included: a bit for each."""
    component_of = {node: number for number, component in enumerate(components) for node in component}
    reached: list[int] = []
    for number, component in enumerate(components):
        bits = 1 << number
        for next_one in {component_of[head] for node in component for head in successors[node]}:
            if next_one != number:
                bits |= reached[next_one]
        reached.append(bits)
    return reached
