"""What others see of a job over two hosts, for which nobody has given an option."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import ranks  # noqa: F401 - skips where torch is missing
import square
from square.run import namespaces
from square.run.ranks import Ranks
from square.run.sites import Sites

MARKER = b"MARKER-OF-THE-TENSOR"
ALL_PROTOCOLS = 3
JOB = f"""
import sys, torch
from torch import distributed as dist
dist.init_process_group(sys.argv[1])
data = bytearray({MARKER!r} * 20_000)
given = torch.frombuffer(data, dtype=torch.uint8).clone()
tensor = given if dist.get_rank() == 0 else torch.zeros_like(given)
dist.broadcast(tensor, 0)
assert torch.equal(tensor, given)
dist.destroy_process_group()
"""
# What a Sites would tell a job by itself: here it is to find out.
NOTHING = {"SQUARE_IDENTITY": "", "SQUARE_NODE": "", "SQUARE_CONTROLLER": ""}


class Listener:
    """Everything that the interfaces of a site take or give."""

    def __init__(self) -> None:
        self.bytes = 0
        self.marked = 0

    @contextmanager
    def at(self, sites: Sites, site: str) -> Iterator[None]:
        is_over = threading.Event()
        packets = sites.network(site).run(
            lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
        )
        packets.settimeout(0.1)

        def listen() -> None:
            while not is_over.is_set():
                try:
                    packet = packets.recv(1 << 16)
                except TimeoutError:
                    continue
                self.bytes += len(packet)
                self.marked += MARKER in packet

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            packets.close()


@pytest.mark.parametrize(("backend", "is_readable"), [("square", False), ("gloo", True)])
def test_a_job_of_two_hosts(backend: str, is_readable: bool, tmp_path: Path) -> None:
    try:
        namespaces.check_possible()
        namespaces.Namespace().close()
    except square.SquareError as error:
        pytest.skip(str(error))
    script = tmp_path / "job.py"
    script.write_text(JOB, encoding="utf-8")
    topology = square.Topology()
    for name in "ab":
        topology.add_node(name)
    for tail, head in ("ab", "ba"):
        topology.add_link(tail, head, capacity_bps=1e8)
    listener = Listener()
    with (
        Sites(topology) as sites,
        listener.at(sites, "a"),
        Ranks(sites, ["a", "b"], [str(script), backend], environment=NOTHING) as job,
    ):
        job.wait(120)
    assert listener.bytes > 400_000
    assert (listener.marked > 0) == is_readable
