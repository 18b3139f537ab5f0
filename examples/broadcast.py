"""A controller, three nodes and a broadcast, all in one process.

In real life every node is a process of its own, at its own site; the calls are the same.

    python examples/broadcast.py
"""

import threading
import time

import square

SITES = ["Berlin", "Nairobi", "Quito"]
SIZE_BYTES = 2_000_000


def receive(node: square.Node, rank: int, root: int, buffer: bytearray) -> None:
    """What every member does; the root's buffer is read, the others' are written."""
    spec = [("broadcast", root, SIZE_BYTES, 1.0)]
    communicator = square.Communicator(node, "weights", "alice", SITES, rank, spec)
    communicator.broadcast(buffer, root=root)


def main() -> None:
    topology = square.Topology.full_mesh(SITES, capacity_bps=20e6)
    topology.set_capacity("Berlin", "Quito", 2e6)  # Nairobi will relay
    root = SITES.index("Berlin")
    buffers = [bytearray(SIZE_BYTES) for _ in SITES]
    buffers[root][:] = bytes(range(250)) * (SIZE_BYTES // 250)

    with square.Controller(square.Scenario(topology)) as controller:
        nodes = [square.Node(site, controller.address) for site in SITES]
        controller.wait_for_nodes(SITES, timeout=10)
        begin = time.monotonic()
        threads = [
            threading.Thread(target=receive, args=(node, rank, root, buffers[rank]))
            for rank, node in enumerate(nodes)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - begin
        for node in nodes:
            node.stop()

    assert all(buffer == buffers[root] for buffer in buffers)
    print(f"{SIZE_BYTES} bytes at {len(SITES) - 1} destinations in {seconds:.2f} s")


if __name__ == "__main__":
    main()
