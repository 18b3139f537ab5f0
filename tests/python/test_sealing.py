"""Blocks that are sealed from their source to their destinations, on real connections and over relays."""

import itertools
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import square
from commands import square as command
from groups import outcomes_of
from issued import Issued
from square.errors import FailedPreconditionError, SquareError
from test_cli_serve import serving

MBPS = 1e6
PATTERN_BYTES = 48
PATIENCE = 20.0


@pytest.fixture
def issued(tmp_path: Path) -> Issued:
    return Issued(tmp_path)


def line(*names: str) -> square.Scenario:
    """One behind the other."""
    topology = square.Topology()
    for name in names:
        topology.add_node(name)
    for one, other in itertools.pairwise(names):
        topology.add_link(one, other, capacity_bps=400 * MBPS)
        topology.add_link(other, one, capacity_bps=400 * MBPS)
    return square.Scenario(topology, name="line")


class Line:
    """a and b here, and r between them in a process of its own."""

    def __init__(self, stack: ExitStack, issued: Issued, sealed: bool = True) -> None:
        self.controller = stack.enter_context(
            square.Controller(line("a", "r", "b"), identity=issued("controller", "c"))
        )
        self.nodes = {
            name: stack.enter_context(
                square.Node(name, self.controller.address, identity=issued("node", name), sealed=sealed)
            )
            for name in ("a", "b")
        }
        options = [] if sealed else ["--unsealed"]
        process, _ = stack.enter_context(
            serving(
                "node",
                "--name",
                "r",
                "--controller",
                self.controller.address,
                "--identity",
                issued("node", "r"),
                *options,
            )
        )
        self.relay = process.pid
        self.controller.wait_for_nodes(["a", "b", "r"], PATIENCE)

    def broadcast(self, data: bytes) -> bytes:
        buffers = [bytearray(data), bytearray(len(data))]

        def call(member: square.Communicator, rank: int) -> None:
            member.broadcast(buffers[rank], root=0, timeout=PATIENCE)

        outcomes_of(self.nodes, ["a", "b"], call)
        return bytes(buffers[1])


@contextmanager
def a_line(issued: Issued, *, sealed: bool) -> Iterator[Line]:
    with ExitStack() as stack:
        yield Line(stack, issued, sealed)


def has_in_memory(pid: int, pattern: bytes) -> bool:
    """What a process has, or has had and not overwritten."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for text in maps:
            found = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", text)
            if found is None:
                continue
            begin, end = (int(number, 16) for number in found.groups())
            try:
                memory.seek(begin)
                if pattern in memory.read(end - begin):
                    return True
            except (OSError, ValueError):
                continue
    return False


def repeated(pattern: bytes, size: int) -> bytes:
    return (pattern * (size // len(pattern) + 1))[:size]


@pytest.mark.parametrize("sealed", [True, False])
def test_a_relay_never_has_what_it_passes_on(issued: Issued, sealed: bool) -> None:
    """Nor has it where blocks go unsealed: then it does, which shows that this would be seen."""
    pattern = os.urandom(PATTERN_BYTES)
    data = repeated(pattern, 8_000_000)
    with a_line(issued, sealed=sealed) as overlay:
        assert overlay.broadcast(data) == data
        assert has_in_memory(overlay.relay, pattern) == (not sealed)


@pytest.mark.parametrize("algorithm", ["planned", "ring"])
def test_a_relay_reads_planned_sums_and_none_of_a_ring(issued: Issued, algorithm: str) -> None:
    pattern = os.urandom(PATTERN_BYTES)
    data = repeated(pattern, 4_000_000)
    with a_line(issued, sealed=True) as overlay:
        sums = [bytearray(len(data)) for _ in range(2)]

        def call(member: square.Communicator, rank: int) -> None:
            given = data if rank == 0 else bytes(len(data))
            member.all_reduce(given, sums[rank], dtype="uint8", algorithm=algorithm, timeout=PATIENCE)

        outcomes_of(overlay.nodes, ["a", "b"], call)
        assert sums[0] == sums[1] == data
        assert has_in_memory(overlay.relay, pattern) == (algorithm == "planned")


def test_all_that_a_group_does_goes_sealed(issued: Issued) -> None:
    with a_line(issued, sealed=True) as overlay:
        gathered = [bytearray(200_000) for _ in range(2)]
        sums = [bytearray(400_000) for _ in range(2)]

        def call(member: square.Communicator, rank: int) -> None:
            member.all_gather(bytes([rank + 1]) * 100_000, gathered[rank], timeout=PATIENCE)
            member.all_reduce(b"\x01\x00\x00\x00" * 100_000, sums[rank], dtype="int32", timeout=PATIENCE)
            if rank == 0:
                member.send(b"word" * 1000, 1, timeout=PATIENCE)
            else:
                got = bytearray(4000)
                member.receive(got, 0, timeout=PATIENCE)
                assert got == b"word" * 1000
            member.barrier(timeout=PATIENCE)

        outcomes_of(overlay.nodes, ["a", "b"], call)
        assert gathered[0] == gathered[1] == b"\x01" * 100_000 + b"\x02" * 100_000
        assert sums[0] == sums[1] == b"\x02\x00\x00\x00" * 100_000
        assert all(node.statistics()["blocks_forged"] == 0 for node in overlay.nodes.values())


def test_who_seals_and_who_does_not_have_no_group_together(issued: Issued) -> None:
    with ExitStack() as stack:
        controller = stack.enter_context(square.Controller(identity=issued("controller", "c")))
        nodes = {
            name: stack.enter_context(
                square.Node(name, controller.address, identity=issued("node", name), sealed=name == "a")
            )
            for name in ("a", "b")
        }
        with pytest.raises(SquareError, match='node "b" seals nothing'):
            square.Communicator(
                nodes["a"], "g", "t", ["a", "b"], 0, collectives=[("broadcast", 0, 1, 1.0)], timeout=PATIENCE
            )
        told = command(
            "doctor", "--controller", controller.address, "--identity", issued("node", "a"), "--security",
            "--timeout", "3",
        )  # fmt: skip
        assert told.returncode == 1, told.stderr
        assert "node b" in told.stdout
        assert "seals no blocks, and others do" in told.stdout


def test_a_group_without_all_its_nodes_says_whom_it_waits_for(issued: Issued) -> None:
    with ExitStack() as stack:
        controller = stack.enter_context(
            square.Controller(line("a", "b"), identity=issued("controller", "c"))
        )
        node = stack.enter_context(square.Node("a", controller.address, identity=issued("node", "a")))
        with pytest.raises(SquareError, match='node "b" is not connected'):
            square.Communicator(
                node, "g", "t", ["a", "b"], 0, collectives=[("broadcast", 0, 1, 1.0)], timeout=2.0
            )


@pytest.mark.parametrize("has_store", [True, False])
def test_a_group_keeps_its_key_under_a_new_controller(
    issued: Issued, tmp_path: Path, has_store: bool
) -> None:
    store = str(tmp_path / "store.sqlite") if has_store else ""
    identity = issued("controller", "c")
    with ExitStack() as stack:
        first = [square.Controller(identity=identity, store=store)]
        address = first[0].address
        nodes = {
            name: stack.enter_context(square.Node(name, address, identity=issued("node", name)))
            for name in ("a", "b")
        }

        def call(member: square.Communicator, rank: int) -> None:
            buffer = bytearray(b"before" if rank == 0 else b"      ")
            member.broadcast(buffer, root=0, timeout=PATIENCE)
            assert buffer == b"before"
            member.barrier(timeout=PATIENCE)
            if rank == 0:
                first.pop().stop()  # and it is gone: it has the store no more
                stack.enter_context(square.Controller(bind_address=address, identity=identity, store=store))
            # Another collective of the same group, and with it another registration.
            buffer = bytearray(b"behind" if rank == 1 else b"      ")
            member.broadcast(buffer, root=1, timeout=PATIENCE)
            assert buffer == b"behind"

        outcomes_of(nodes, ["a", "b"], call)


def test_a_process_that_begins_anew_has_no_part_in_the_group_of_the_one_before(issued: Issued) -> None:
    with ExitStack() as stack:
        controller = stack.enter_context(square.Controller(identity=issued("controller", "c")))
        a = stack.enter_context(square.Node("a", controller.address, identity=issued("node", "a")))
        b = square.Node("b", controller.address, identity=issued("node", "b"))
        collectives = [("broadcast", 0, 1, 1.0)]
        held = square.Communicator(a, "g", "t", ["a", "b"], 0, collectives=collectives)
        b.stop()
        again = stack.enter_context(square.Node("b", controller.address, identity=issued("node", "b")))
        with pytest.raises(FailedPreconditionError, match="another process of node"):
            square.Communicator(again, "g", "t", ["a", "b"], 1, collectives=collectives)
        held.close(1.0)


def test_members_that_begin_anew_one_after_the_other_come_to_a_group_again(issued: Issued) -> None:
    with ExitStack() as stack:
        controller = stack.enter_context(square.Controller(identity=issued("controller", "c")))
        collectives = [("broadcast", 0, 1, 1.0)]

        def begin(name: str) -> square.Node:
            return square.Node(name, controller.address, identity=issued("node", name))

        def join(node: square.Node, rank: int) -> square.Communicator:
            return square.Communicator(node, "train", "t", ["a", "b"], rank, collectives, timeout=PATIENCE)

        nodes = [begin("a"), begin("b")]
        held = [join(node, rank) for rank, node in enumerate(nodes)]
        for rank, name in enumerate("ab"):
            nodes[rank].stop()
            nodes[rank] = begin(name)
            if rank == 0:
                with pytest.raises(FailedPreconditionError, match="another process of node"):
                    join(nodes[rank], rank)
        del held
        later = join(nodes[1], 1)
        again = [join(nodes[0], 0), later]
        buffers = [bytearray(b"anew"), bytearray(4)]
        works = [again[rank].broadcast(buffers[rank], root=0, async_op=True) for rank in range(2)]
        for work in works:
            assert work is not None
            work.wait()
        assert buffers[1] == b"anew"
        for node in nodes:
            node.stop()
