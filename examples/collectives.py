"""Every collective once, three members on two nodes, all in one process.

Ranks 0 and 2 share a node. In real life every node is a process of its own, at its own site; the
calls are the same.

    python examples/collectives.py
"""

import threading

import numpy as np
import square

NODES = ["Berlin", "Quito", "Berlin"]  # of every rank


def member(node: square.Node, rank: int, report: list[str]) -> None:
    size = len(NODES)
    group = square.Communicator(node, "shards", "alice", NODES, rank)
    shard = np.full(4, rank, np.int32)

    # One output in rank order, or a list of one for every rank.
    whole = np.empty((size, 4), np.int32)
    group.all_gather(shard, whole)
    assert whole.tolist() == [[0] * 4, [1] * 4, [2] * 4]

    total = np.empty(4, np.int32)
    group.reduce_scatter(whole, total)  # everybody gave the same
    assert total.tolist() == [size * rank] * 4

    # Uneven: rank r gets r elements from everybody.
    parts = [np.full(to, 10 * rank + to, np.int32) for to in range(size)]
    arrived = np.empty(size * rank, np.int32)
    group.all_to_all(parts, arrived, output_bytes=[arrived.itemsize * rank] * size)
    assert arrived.tolist() == [10 * source + rank for source in range(size) for _ in range(rank)]

    # Only the root has all of it.
    group.gather(shard, whole if rank == 1 else None, root=1)
    group.scatter(whole if rank == 1 else None, shard, root=1)

    # Messages; with different tags they do not wait for one another.
    if rank == 0:
        works = [group.send_async(np.array([tag]), to=1, tag=tag) for tag in (1, 2)]
        for work in works:
            work.wait()
    elif rank == 1:
        message = np.empty(1, int)
        for tag in (2, 1):
            group.receive(message, source=0, tag=tag)
            assert message[0] == tag

    # Several at once: nobody waits before all are on their way.
    average, largest = np.full(3, rank, np.float32), np.full(3, rank, np.float32)
    works = [
        group.all_reduce_async(average, op="average"),
        group.all_reduce_async(largest, op="max"),
        group.barrier_async(),
    ]
    for work in works:
        work.wait()
    report.append(f"rank {rank} on {NODES[rank]}: average {average[0]:g}, largest {largest[0]:g}")


def main() -> None:
    sites = sorted(set(NODES))
    scenario = square.Scenario(square.Topology.full_mesh(sites, capacity_bps=200e6))
    scenario.policy = square.Policy("exact")  # the only one that plans sums over relays
    report: list[str] = []
    with square.Controller(scenario) as controller:
        nodes = {site: square.Node(site, controller.address) for site in sites}
        controller.wait_for_nodes(sites, timeout=10)
        threads = [
            threading.Thread(target=member, args=(nodes[site], rank, report))
            for rank, site in enumerate(NODES)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        plan = controller.plan()
        for node in nodes.values():
            node.stop()
    assert len(report) == len(NODES)
    print(*sorted(report), sep="\n")
    print(f"{len(plan.collectives)} collectives were registered, in {plan.epoch} plans")


if __name__ == "__main__":
    main()
