"""Groups whose members live on nodes of this process, each member on a thread of its own."""

import itertools
import threading
from collections.abc import Callable, Iterator

import square
from square.planning import with_policy

TIMEOUT_SECONDS = 60.0

_numbers = itertools.count()


def on_all(
    nodes: dict[str, square.Node],
    ranks: list[str],
    act: Callable[[square.Communicator, int], object],
    redundancy: int = 0,
) -> list[object]:
    """What `act` returns or raises at every rank of a new group, rank r on node ranks[r]."""
    group = f"group/{next(_numbers)}"
    results: list[object] = [None] * len(ranks)

    def member(rank: int) -> None:
        try:
            joined = square.Communicator(
                nodes[ranks[rank]], group, "alice", ranks, rank, redundancy=redundancy
            )
            results[rank] = act(joined, rank)
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(len(ranks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def outcomes_of(
    nodes: dict[str, square.Node],
    ranks: list[str],
    act: Callable[[square.Communicator, int], object],
    redundancy: int = 0,
) -> list[object]:
    """The same where nobody may fail: raises what the first one raised."""
    results = on_all(nodes, ranks, act, redundancy)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def three_nodes() -> Iterator[dict[str, square.Node]]:
    """Nodes a, b and c on loopback, every two joined by 2 Gbit/s, until the fixture ends."""
    names = ["a", "b", "c"]
    topology = square.Topology.full_mesh(names, capacity_bps=2e9)
    overlay = with_policy(square.Scenario(topology, name="three"), policy="exact")
    with square.Controller(overlay) as controller:
        joined = {name: square.Node(name, controller.address) for name in names}
        yield joined
        for node in joined.values():
            node.stop()
