"""Gradients of three sites added up for all of them, with NumPy, all in one process.

Berlin and Quito have a slow link between them, so the plan takes sums over Nairobi, which adds what
passes. In real life every node is a process of its own, at its own site; the calls are the same.

    python examples/all_reduce.py
"""

import threading
import time

import numpy as np
import numpy.typing as npt
import square

SITES = ["Berlin", "Nairobi", "Quito"]
ELEMENTS = 500_000

Gradients = npt.NDArray[np.float32]


def train(node: square.Node, rank: int, gradients: Gradients, total: Gradients) -> None:
    """What every member does: the sum goes to all, then to one, in place."""
    communicator = square.Communicator(node, "gradients", "alice", SITES, rank)
    communicator.all_reduce(gradients, total)
    communicator.reduce(gradients, root=0)


def main() -> None:
    topology = square.Topology.full_mesh(SITES, capacity_bps=200e6)
    topology.set_capacity("Berlin", "Quito", 20e6)
    scenario = square.Scenario(topology)
    scenario.policy = square.Policy("exact")  # the only one that plans sums over relays
    generator = np.random.default_rng(7)
    gradients = [generator.integers(-99, 99, ELEMENTS).astype(np.float32) for _ in SITES]
    totals = [np.empty_like(array) for array in gradients]
    expected = sum(gradients[1:], gradients[0])

    with square.Controller(scenario) as controller:
        nodes = [square.Node(site, controller.address) for site in SITES]
        controller.wait_for_nodes(SITES, timeout=10)
        begin = time.monotonic()
        threads = [
            threading.Thread(target=train, args=(node, rank, gradients[rank], totals[rank]))
            for rank, node in enumerate(nodes)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - begin
        for node in nodes:
            node.stop()

    assert all(np.array_equal(total, expected) for total in totals)
    assert np.array_equal(gradients[0], expected)
    print(f"{ELEMENTS} elements of {len(SITES)} sites added for all and for one in {seconds:.2f} s:")
    print(totals[0])


if __name__ == "__main__":
    main()
