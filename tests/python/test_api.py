"""The Python face, as a user sees it: planning, and broadcasts between nodes of one process."""

import array
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
import square

NAMES = ["fra", "sfo", "syd"]
TIMEOUT = 20.0


def scenario(size_bytes: int = 1000) -> square.Scenario:
    topology = square.Topology.full_mesh(NAMES, capacity_bps=200e6)
    broadcast = square.Collective("alice", root="fra", size_bytes=size_bytes)
    return square.Scenario(topology, collectives=[broadcast])


class Overlay:
    """A controller and three nodes, and the communicators of "collective/0" on them."""

    def __init__(self) -> None:
        self.controller = square.Controller(scenario())
        self.nodes = [square.Node(name, self.controller.address) for name in NAMES]
        self.controller.wait_for_nodes(NAMES, TIMEOUT)
        self.members = [self.join("collective/0", rank) for rank in range(3)]

    def join(self, group: str, rank: int) -> square.Communicator:
        known = [("broadcast", 0, 1000, 1.0)]
        return square.Communicator(self.nodes[rank], group, "alice", NAMES, rank, collectives=known)

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()
        self.controller.stop()


@pytest.fixture
def overlay() -> Iterator[Overlay]:
    started = Overlay()
    yield started
    started.stop()


def test_plan_of_a_scenario_made_in_code() -> None:
    plan = square.plan(scenario(12_500_000))
    (collective,) = plan.collectives
    assert collective.tenant == "alice"
    assert collective.rate_bps == pytest.approx(400e6, rel=1e-6)
    assert collective.bound_bps == pytest.approx(400e6, rel=1e-6)
    assert collective.completion_seconds == pytest.approx(0.25, rel=1e-6)
    (session,) = plan.sessions
    assert session.root == "fra"
    assert sum(stream.rate_bps for stream in session.streams) == pytest.approx(400e6)
    assert all(len(stream.links) == 2 for stream in session.streams)
    document = json.loads(plan.to_json())
    assert document["format"] == "square.plan/1"
    assert square.Plan.from_json(plan.to_json()).to_json() == plan.to_json()
    square.validate(plan)


def test_a_plan_that_was_tampered_with_is_refused() -> None:
    document = json.loads(square.plan(scenario()).to_json())
    document["sessions"][0]["streams"][0]["rate_mbps"] *= 2
    with pytest.raises(square.errors.InvalidArgumentError):
        square.validate(square.Plan.from_json(json.dumps(document)))


@pytest.mark.parametrize(
    ("error", "builtin", "call"),
    [
        ("NotFoundError", LookupError, lambda: square.Topology.read("missing.gml")),
        ("InvalidArgumentError", ValueError, lambda: square.Policy(paths="longest:3")),
        ("AlreadyExistsError", ValueError, lambda: square.Topology.full_mesh(["a", "a"])),
        ("UnavailableError", ConnectionError, lambda: square.Node("a", "127.0.0.1:1")),
    ],
)
def test_errors_have_a_class_and_a_builtin(error: str, builtin: type, call: object) -> None:
    with pytest.raises(getattr(square.errors, error)) as caught:
        call()  # type: ignore[operator]
    assert isinstance(caught.value, builtin)
    assert isinstance(caught.value, square.SquareError)


@pytest.mark.parametrize(
    "make", [bytearray, lambda n: memoryview(bytearray(n)), lambda n: np.zeros(n, np.uint8)]
)
def test_broadcast_fills_anything_with_the_buffer_protocol(overlay: Overlay, make: object) -> None:
    payload = bytes(range(256)) * 1000
    targets = [make(len(payload)) for _ in range(2)]  # type: ignore[operator]
    works = [overlay.members[rank + 1].broadcast_async(targets[rank]) for rank in range(2)]
    overlay.members[0].broadcast(payload)  # the root's buffer may be read-only
    for work in works:
        work.wait()
        assert work.is_done
    assert all(bytes(target) == payload for target in targets)


def test_arrays_of_wider_types_travel_as_they_are(overlay: Overlay) -> None:
    numbers = np.arange(10_000, dtype=np.float32).reshape(100, 100)
    works = []
    targets = [np.empty_like(numbers), array.array("f", bytes(numbers.nbytes))]
    for rank, target in enumerate(targets, start=1):
        works.append(overlay.members[rank].broadcast_async(target))
    overlay.members[0].broadcast(numbers)
    for work in works:
        work.wait()
    assert np.array_equal(targets[0], numbers)
    assert targets[1].tobytes() == numbers.tobytes()


def test_buffers_that_cannot_be_filled_are_refused(overlay: Overlay) -> None:
    with pytest.raises(square.errors.InvalidArgumentError, match="writable"):
        overlay.members[1].broadcast(b"read-only")
    with pytest.raises(square.errors.InvalidArgumentError, match="contiguous"):
        overlay.members[1].broadcast(np.zeros((10, 10), np.uint8)[:, ::2])
    with pytest.raises(TypeError):
        overlay.members[1].broadcast("text")  # type: ignore[arg-type]


def test_other_threads_run_while_a_call_waits(overlay: Overlay) -> None:
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    with pytest.raises(square.errors.DeadlineExceededError, match="rank 1"):
        overlay.members[1].broadcast(bytearray(10), timeout=0.5)
    done.set()
    thread.join()
    assert ticks > 50


def test_a_work_that_is_dropped_is_cancelled(overlay: Overlay) -> None:
    buffer = bytearray(1_000_000)
    work = overlay.members[0].broadcast_async(buffer)
    assert not work.wait_for(0.05)
    del work
    buffer.clear()  # raises BufferError while anything still refers to it


INTERRUPTED = """
import signal, sys, threading, time, os, square
topology = square.Topology.full_mesh(["a", "b"], capacity_bps=1e6)
controller = square.Controller(square.Scenario(topology))
node = square.Node("a", controller.address)
other = square.Node("b", controller.address)
held = []  # a member that is let go has closed the group
threading.Thread(target=lambda: held.append(square.Communicator(other, "g", "t", ["a", "b"], 1))).start()
member = square.Communicator(node, "g", "t", ["a", "b"], 0, collectives=[("broadcast", 0, 10, 1.0)])
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    member.broadcast(bytearray(10))
except KeyboardInterrupt:
    print("interrupted after", round(time.monotonic() - start, 1))
node.stop(); other.stop(); controller.stop()
"""


def test_ctrl_c_ends_a_call_that_waits() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=30, check=False
    )
    assert finished.returncode == 0, finished.stderr
    words = finished.stdout.split()
    assert words[:2] == ["interrupted", "after"]
    assert float(words[2]) < 2.0
    assert signal.getsignal(signal.SIGINT) is not None


def test_nodes_and_controller_are_context_managers() -> None:
    with square.Controller(scenario()) as controller, square.Node("fra", controller.address) as node:
        assert node.name == "fra"
        controller.wait_for_nodes(["fra"], TIMEOUT)
        assert node.statistics()["blocks_sent"] == 0
        with pytest.raises(square.errors.DeadlineExceededError, match="syd"):
            controller.wait_for_nodes(["fra", "syd"], 0.2)


def test_a_controller_needs_no_scenario() -> None:
    """As `square controller`: nodes that join are meshed, and sums are planned, too."""
    with (
        square.Controller() as controller,
        square.Node("a", controller.address) as a,
        square.Node("b", controller.address) as b,
    ):
        members = [
            square.Communicator(node, "g", "alice", ["a", "b"], rank) for rank, node in enumerate((a, b))
        ]
        data = [array.array("f", [1.0, rank]) for rank in range(2)]
        works = [
            member.all_reduce_async(buffer, dtype="float32", timeout=TIMEOUT)
            for member, buffer in zip(members, data, strict=True)
        ]
        for work in works:
            work.wait()
        assert [list(buffer) for buffer in data] == [[2.0, 1.0]] * 2
        assert controller.plan().policy == "exact"
        del members, works


def test_a_node_alone_needs_no_controller() -> None:
    with square.Node("home") as node, square.attach(node.serve_gateway(), tenant="alice") as attached:
        assert (node.name, node.address, attached.name) == ("home", "", "home")
        hosts = [node, attached, node]
        members = [
            square.Communicator(host, "g", "alice", ["home"] * 3, rank) for rank, host in enumerate(hosts)
        ]
        data = [array.array("f", [float(rank)]) for rank in range(3)]
        for op in ("all_reduce", "broadcast"):
            works = [
                member.all_reduce_async(buffer, dtype="float32", timeout=TIMEOUT)
                if op == "all_reduce"
                else member.broadcast_async(buffer, 1, timeout=TIMEOUT)
                for member, buffer in zip(members, data, strict=True)
            ]
            for work in works:
                work.wait()
        assert [list(buffer) for buffer in data] == [[3.0]] * 3
        with pytest.raises(square.errors.DeadlineExceededError, match=r'group "far" was not planned'):
            square.Communicator(node, "far", "alice", ["home", "away"], 0, timeout=0.2)
        del members, works


def test_what_needs_torch_says_so_where_it_is_missing() -> None:
    program = "import sys; sys.modules['torch'] = None; import square; square.diloco"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "square.diloco needs torch, which is not installed: pip install 'square[torch]'" in result.stderr
