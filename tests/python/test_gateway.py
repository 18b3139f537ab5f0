"""`square node --gateway` and the processes that it serves."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import square as package
from commands import TRIANGLE, square, start, wait_until

SIZE_BYTES = 3_000_001
LIMIT = 20

# A member of a group, in a process of its own: attaches, and says how its broadcasts went.
MEMBER = """
import hashlib, json, sys
import square
gateway, tenant, rank, shared, calls = json.loads(sys.argv[1])
with square.attach(gateway, shared_memory=shared) as node:
    member = square.Communicator(
        node, "group of " + tenant, tenant, ["a", "b"], rank, [("broadcast", 0, 0, 1.0)], timeout=20
    )
    print("shared" if node.is_shared else "streamed", flush=True)
    for call in range(calls):
        data = bytearray(hashlib.shake_128(f"{tenant} {call}".encode()).digest(3_000_001))
        buffer = data if rank == 0 else bytearray(len(data))
        try:
            member.broadcast(buffer, root=0, timeout=20)
        except square.SquareError as error:
            print(type(error).__name__, error, flush=True)
        else:
            print(hashlib.sha256(buffer).hexdigest(), flush=True)
    sys.stdin.read()
"""


# The same for sums: float32 in place, int64 out of place, both told exactly; "wait" is killed.
ADDER = """
import array, json, sys
import square
gateway, tenant, nodes, rank, shared, calls = json.loads(sys.argv[1])
spec = [("all_reduce", 0, 0, 1.0), ("reduce", 1, 0, 1.0)]
with square.attach(gateway, shared_memory=shared) as node:
    member = square.Communicator(node, "sums of " + tenant, tenant, nodes, rank, spec, timeout=20)
    print("shared" if node.is_shared else "streamed", flush=True)
    for call, (op, code, count) in enumerate(calls):
        if op == "wait":
            print("waits", flush=True)
            sys.stdin.read()
        def values(rank):
            return array.array(code, ((i * 7 + rank * 41 + call) % 251 for i in range(count)))
        given, size = values(rank), len(nodes)
        expected = array.array(code, (sum(column) for column in zip(*map(values, range(size)))))
        output = given if code == "f" else array.array(code, bytes(8 * count))
        elsewhere = [] if code == "f" else [output]
        try:
            if op == "reduce":
                member.reduce(given, *elsewhere, root=1, timeout=20)
            else:
                member.all_reduce(given, *elsewhere, timeout=20)
        except square.SquareError as error:
            print(type(error).__name__, error, flush=True)
        else:
            has_result = op == "all_reduce" or rank == 1
            is_right = not has_result or output == expected
            is_kept = given == values(rank) or (has_result and code == "f")
            print("right" if is_right and is_kept else "wrong", flush=True)
    sys.stdin.read()
"""


def digest(tenant: str, call: int) -> str:
    data = hashlib.shake_128(f"{tenant} {call}".encode()).digest(SIZE_BYTES)
    return hashlib.sha256(data).hexdigest()


class Member:
    """A process that attaches to a gateway."""

    def __init__(self, gateway: str, tenant: str, rank: int, *, shared: bool, calls: int) -> None:
        self.start(MEMBER, gateway, tenant, rank, shared, calls)

    def start(self, program: str, *words: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", program, json.dumps(words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def __enter__(self) -> "Member":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


class Adder(Member):
    """A process that adds."""

    def __init__(
        self,
        gateway: str,
        tenant: str,
        nodes: str,
        rank: int,
        *,
        shared: bool,
        calls: list[tuple[str, str, int]],
    ) -> None:
        self.start(ADDER, gateway, tenant, list(nodes), rank, shared, calls)


@contextmanager
def serving(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """The process and what it says about itself."""
    process = start(*arguments, "--json")
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            pytest.fail(f"{arguments} said nothing: {process.communicate()[1]}")
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def triangle(tmp_path: Path) -> Path:
    file = tmp_path / "triangle.toml"
    # Fast enough for a test, only what the groups below are, and a policy that plans sums.
    overlay = TRIANGLE.split("[[tenant]]")[0].replace("= 40", "= 800").replace("= 4\n", "= 80\n")
    file.write_text(overlay + '[policy]\nname = "exact"\n', encoding="utf-8")
    return file


@pytest.fixture
def gateways(triangle: Path) -> Iterator[tuple[list[str], list[subprocess.Popen[str]]]]:
    """Two `square node --gateway`, a and b, and c, which only relays."""
    with ExitStack() as stack:
        _, controller = stack.enter_context(serving("controller", triangle))
        addresses, processes = [], []
        for name in "abc":
            extra = ["--gateway"] if name != "c" else []
            process, said = stack.enter_context(
                serving("node", "--name", name, "--controller", controller["address"], *extra)
            )
            assert said["name"] == name
            if name != "c":
                addresses.append(said["gateway"])
                processes.append(process)
        yield addresses, processes


@pytest.mark.parametrize("shared", [True, False])
def test_four_processes_of_two_tenants(
    gateways: tuple[list[str], list[subprocess.Popen[str]]], shared: bool
) -> None:
    addresses, _ = gateways
    with ExitStack() as stack:
        members = {
            (tenant, rank): stack.enter_context(Member(addresses[rank], tenant, rank, shared=shared, calls=2))
            for tenant in ("alice", "bob")
            for rank in (0, 1)
        }
        for (tenant, _), member in members.items():
            assert member.line() == ("shared" if shared else "streamed")
            assert [member.line() for _ in range(2)] == [digest(tenant, call) for call in range(2)]


def test_four_processes_of_two_tenants_add(gateways: tuple[list[str], list[subprocess.Popen[str]]]) -> None:
    """Shared and streamed; bob's two ranks share a gateway with one another, and alice's with bob's."""
    addresses, _ = gateways
    calls = [
        ("all_reduce", "f", 50_001),
        ("reduce", "f", 20_000),
        ("all_reduce", "q", 1),
        ("reduce", "q", 30_000),
    ]
    with ExitStack() as stack:
        members = [
            stack.enter_context(
                Adder(addresses["ab".index(nodes[rank])], tenant, nodes, rank, shared=rank == 0, calls=calls)
            )
            for tenant, nodes in (("alice", "ab"), ("bob", "aa"))
            for rank in (0, 1)
        ]
        for index, member in enumerate(members):
            assert member.line() == ("streamed" if index % 2 else "shared")
        for member in members:
            assert [member.line() for _ in calls] == ["right"] * len(calls)


def test_a_killed_process_is_named_at_another_gateway(
    gateways: tuple[list[str], list[subprocess.Popen[str]]],
) -> None:
    addresses, _ = gateways
    first = ("all_reduce", "q", 1000)
    with (
        Adder(addresses[0], "alice", "ab", 0, shared=True, calls=[first, first, first]) as waiting,
        Adder(addresses[1], "alice", "ab", 1, shared=True, calls=[first, ("wait", "q", 0)]) as killed,
    ):
        for member in (waiting, killed):
            assert [member.line(), member.line()] == ["shared", "right"]
        assert killed.line() == "waits"
        killed.process.send_signal(signal.SIGKILL)
        line = waiting.line()
        assert line.startswith("UnavailableError")
        assert f'process {killed.process.pid} of tenant "alice", rank 1' in line
        assert waiting.line().startswith("FailedPreconditionError")


def test_a_gateway_that_is_killed_is_named(
    gateways: tuple[list[str], list[subprocess.Popen[str]]],
) -> None:
    addresses, processes = gateways
    with Member(addresses[1], "alice", 1, shared=True, calls=1) as member:
        assert member.line() == "shared"
        processes[1].send_signal(signal.SIGKILL)
        line = member.line()
        assert line.startswith("UnavailableError")
        assert addresses[1] in line
        assert 'node "b"' in line


def test_a_gateway_in_this_process(triangle: Path) -> None:
    with serving("controller", triangle) as (_, said), package.Node("a", said["address"]) as node:
        with pytest.raises(package.errors.InvalidArgumentError, match="a node of its own"):
            node.serve_gateway("0.0.0.0:0")
        address = node.serve_gateway(staging_bytes=1 << 20, tenant_staging_bytes=1 << 20)
        assert Path(address).stat().st_mode & 0o777 == 0o600
        assert Path(address).parent.stat().st_mode & 0o777 == 0o700
        with pytest.raises(package.errors.FailedPreconditionError, match=address):
            node.serve_gateway()
        with package.attach(address) as attached:
            assert attached.name == "a"
            assert attached.is_shared, attached.why_streamed
            assert node.gateway_statistics()["attachments"] == 1
            spec = [("broadcast", 0, 0, 1.0)]
            member = package.Communicator(attached, "g", "alice", ["a"], 0, spec, timeout=LIMIT)
            member.broadcast(bytearray(1000), timeout=LIMIT)
            with pytest.raises(package.errors.ResourceExhaustedError, match="staging_bytes"):
                member.broadcast(bytearray((1 << 20) + 1), timeout=LIMIT)
        with pytest.raises(package.SquareError):
            package.Communicator(attached, "h", "alice", ["a"], 0, spec, timeout=LIMIT)
    with pytest.raises(package.errors.UnavailableError, match=address):
        package.attach(address, timeout=1)
    assert not Path(address).exists()


def test_a_node_that_stops_stops_its_gateway_first(triangle: Path) -> None:
    with serving("controller", triangle) as (_, said):
        node = package.Node("a", said["address"])
        attached = package.attach(node.serve_gateway())
        spec = [("broadcast", 0, 0, 1.0)]
        member = package.Communicator(attached, "g", "alice", ["a", "b"], 0, spec, timeout=LIMIT)
        work = member.broadcast_async(bytearray(SIZE_BYTES), timeout=LIMIT)
        node.stop()
        with pytest.raises(package.errors.UnavailableError, match=r"gateway of node .a. was stopped"):
            work.wait()
        assert node.gateway_statistics() == {"attachments": 0, "operations": 0, "staging_bytes": 0}
        with pytest.raises(package.SquareError, match="was stopped"):
            node.serve_gateway()
        attached.stop()


@pytest.mark.parametrize("taken", [False, True])
def test_an_address_that_cannot_be_had(triangle: Path, taken: bool) -> None:
    with serving("controller", triangle) as (_, said):
        other = package.Node("b", said["address"])
        address, words = (other.serve_gateway(), "already") if taken else ("0.0.0.0:0", "a node of its own")
        result = square("node", "--name", "a", "--controller", said["address"], "--gateway", address)
    # The node has joined by then, and may have logged so.
    assert result.returncode == 1, result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    complaint = result.stderr.splitlines()[-1]
    assert complaint.startswith("square: error: ")
    assert address in complaint
    assert words in complaint


def test_nothing_is_left_of_a_killed_process(gateways: tuple[list[str], list[subprocess.Popen[str]]]) -> None:
    """Shared memory has no name in any file system, and the gateway maps none of a dead process."""
    addresses, processes = gateways
    shared_before = set(os.listdir("/dev/shm"))
    with Member(addresses[1], "alice", 1, shared=True, calls=1) as member:
        assert member.line() == "shared"
        member.process.send_signal(signal.SIGKILL)
        member.process.wait(LIMIT)
    with Member(addresses[0], "bob", 0, shared=True, calls=0) as other:
        assert other.line() == "shared"

    def maps_nothing() -> bool:
        maps = [Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8") for process in processes]
        return not any("square-gateway" in text for text in maps)

    assert wait_until(maps_nothing, LIMIT)
    assert set(os.listdir("/dev/shm")) <= shared_before


# A process of another user, who is to have alice's rank: says how far it came.
STRANGER = """
import json, os, socket, sys
import square
path, user, tenant, group_tenant, silent, group = json.loads(sys.argv[1])
os.setgid(65534)
os.setuid(user)
held = []
for _ in range(silent):
    held.append(socket.socket(socket.AF_UNIX))
    held[-1].connect(path)
try:
    if silent:
        print("silent", flush=True)
        sys.stdin.read()
    with square.attach(path, tenant=tenant) as node:
        square.Communicator(node, group, group_tenant, ["a", "a"], 0, [("broadcast", 0, 0, 1.0)], timeout=10)
        print("joined", "shared" if node.is_shared else node.why_streamed, flush=True)
except square.SquareError as error:
    print(type(error).__name__, error, flush=True)
"""
NOBODY = 65534


def said_by(path: str, user: int, tenant: str, group_tenant: str, group: str = "g") -> str:
    words = json.dumps([path, user, tenant, group_tenant, 0, group])
    command = [sys.executable, "-P", "-c", STRANGER, words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """That every user may enter."""
    with tempfile.TemporaryDirectory(prefix="square-test-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="becomes other users")


@needs_root
def test_other_users_are_served_as_they_are_named(open_directory: Path) -> None:
    with package.Controller() as controller, package.Node("a", controller.address) as node:
        path = node.serve_gateway(open_directory / "own.sock")
        assert said_by(path, NOBODY, "alice", "alice").startswith("UnavailableError")
    with package.Controller() as controller, package.Node("a", controller.address) as node:
        path = node.serve_gateway(open_directory / "shared.sock", users=[(NOBODY, "bob")])
        with package.attach(path, tenant="alice") as attached:
            spec = [("broadcast", 0, 0, 1.0)]
            member = package.Communicator(attached, "g", "alice", ["a", "a"], 0, spec, timeout=LIMIT)
            assert 'may not be tenant "alice"' in said_by(path, NOBODY, "alice", "alice")
            assert 'may not be tenant "alice"' in said_by(path, NOBODY, "", "alice")
            # Of another tenant by that name.
            assert said_by(path, NOBODY, "bob", "bob").startswith("InvalidArgumentError")
            assert "--gateway-user 65533=TENANT" in said_by(path, NOBODY - 1, "bob", "bob")
            del member
        assert said_by(path, NOBODY, "", "bob", "h") == "joined shared"


@needs_root
def test_connections_that_say_nothing_keep_no_other_user_out(open_directory: Path) -> None:
    with package.Controller() as controller, package.Node("a", controller.address) as node:
        path = node.serve_gateway(open_directory / "a.sock", users=[(NOBODY, "*")])
        words = json.dumps([path, NOBODY, "", "", 100, "g"])
        silent = subprocess.Popen(
            [sys.executable, "-P", "-c", STRANGER, words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert silent.stdout is not None
            assert silent.stdout.readline() == "silent\n"
            with package.attach(path) as attached:
                assert attached.name == "a"
        finally:
            silent.kill()
            silent.communicate()


def test_the_socket_of_a_gateway_that_was_killed_makes_room(tmp_path: Path, triangle: Path) -> None:
    path = tmp_path / "a.sock"
    with serving("controller", triangle) as (_, said):
        for name in ("a", "b"):
            with serving("node", "--name", name, "--controller", said["address"], "--gateway", path) as (
                _,
                told,
            ):
                assert told["gateway"] == str(path)
                with package.attach(path) as attached:
                    assert attached.name == name
        assert path.exists()  # both were killed
    path.unlink()
    path.write_text("a file of somebody's")
    with (
        package.Node("home") as home,
        pytest.raises(package.errors.AlreadyExistsError, match="is no socket"),
    ):
        home.serve_gateway(path)
    assert path.read_text() == "a file of somebody's"
