"""Hosts for the tests of `square doctor`: network namespaces on one switch, and what runs in them."""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from commands import COMMAND
from conftest import REPOSITORY
from doctor_faults import CROWDED
from square.run import namespaces
from square.run.namespaces import Namespace

sys.path.insert(0, str(REPOSITORY / "tests" / "netns"))

from delayed_link import LEFT_ADDRESS, RIGHT_ADDRESS, DelayedLink

PORT = 7001
CONTROLLER_PORT = 7000
SWITCH_ADDRESS = "10.7.0.1"

# A member of a group on a node of its own: broadcasts from the first until it is killed.
MEMBER = """\
import sys
import square

name, controller, address, rank, size = sys.argv[1:4] + [int(word) for word in sys.argv[4:6]]
node = square.Node(name, controller, bind_address=address, insecure=True)
data = bytearray(size)
with square.Communicator(node, "job", "alice", ["a", "b"], rank) as group:
    group.barrier()
    print(name, flush=True)
    while True:
        group.broadcast(data, 0)
"""


def wait_for_line(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline(), process.args


class Hosts:
    """A context: hosts, each with an address; the controller runs at the one named "" or the first."""

    def __init__(self, names: list[str], folder: Path) -> None:
        self._names = names
        self._stack = ExitStack()
        self._networks: dict[str, Namespace] = {}
        self.addresses = {name: f"10.7.0.{11 + number}" for number, name in enumerate(names)}
        self.controller_host = ""
        self.controller = f"{SWITCH_ADDRESS}:{CONTROLLER_PORT}"

    def __enter__(self) -> "Hosts":
        self._wire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _wire(self) -> None:
        for name in ["", *self._names]:
            self._networks[name] = Namespace()
            self._stack.callback(self._networks[name].close)
        self.ip("", "link set lo up", "link add name switch type bridge", "link set switch up")
        self.ip("", f"address add {SWITCH_ADDRESS}/24 dev switch")
        for number, (name, address) in enumerate(self.addresses.items()):
            there = self._networks[name].file
            self.ip("", f"link add name to{number} type veth peer name net0 netns {there}")
            self.ip("", f"link set to{number} master switch", f"link set to{number} up")
            self.ip(name, "link set lo up", f"address add {address}/24 dev net0", "link set net0 up")

    def ip(self, host: str, *lines: str) -> None:
        self._networks[host].run(lambda: namespaces.run_batch("ip", lines))

    def tc(self, host: str, *lines: str) -> None:
        self._networks[host].run(lambda: namespaces.run_batch("tc", lines))

    def set(self, host: str, setting: str, value: str) -> None:
        """Of the host's network: net.ipv4.tcp_rmem is tcp_rmem."""
        file = Path("/proc/sys/net/ipv4", setting)
        self._networks[host].run(lambda: file.write_text(value, encoding="ascii"))

    def close_port(self, host: str, to: str) -> None:
        """The host drops without a word what comes to its node's port from there. Once a host."""
        self.ip(
            host,
            "rule add pref 10 lookup local",
            f"rule add pref 5 from {to} iif net0 ipproto tcp dport {PORT} blackhole",
            "rule del pref 0",
        )

    def begin(self, host: str, *words: str | Path) -> subprocess.Popen[str]:
        """A process there that lives as long as the hosts."""
        process = self._networks[host].run(
            lambda: subprocess.Popen(
                [str(word) for word in words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        )
        self._stack.callback(process.communicate)
        self._stack.callback(process.kill)
        return process

    def start_controller(self, *arguments: str | Path) -> None:
        bind = ["--bind", self.controller, "--insecure"]
        wait_for_line(self.begin(self.controller_host, *COMMAND, "controller", *bind, *arguments))

    def start_node(self, name: str, bind: str | None = None) -> None:
        bind = bind or f"{self.addresses[name]}:{PORT}"
        where = ["--controller", self.controller, "--bind", bind, "--insecure"]
        wait_for_line(self.begin(name, *COMMAND, "node", "--name", name, *where))

    def begin_member(self, name: str, rank: int, size_bytes: int) -> subprocess.Popen[str]:
        address = f"{self.addresses[name]}:{PORT}"
        arguments = [name, self.controller, address, str(rank), str(size_bytes)]
        return self.begin(name, sys.executable, "-P", "-c", MEMBER, *arguments)

    def findings(self, timeout: float = 20.0) -> list[dict[str, str]]:
        """What the doctor says at the controller."""
        words = ["--controller", self.controller, "--json"]
        command = [*COMMAND, "doctor", *words, "--timeout", str(timeout)]
        result = self._networks[self.controller_host].run(
            lambda: subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        )
        assert result.stdout, result.stderr
        document = json.loads(result.stdout)
        assert all(node["answered"] for node in document["nodes"]), document
        return [finding for finding in document["findings"] if finding["rule"] != CROWDED]


class FarHosts(Hosts):
    """Two hosts with so much time between them; the controller runs at the first."""

    def __init__(self, names: list[str], folder: Path, relay: Path, seconds: float) -> None:
        super().__init__(names, folder)
        self._link = DelayedLink(relay, seconds)
        self.addresses = dict(zip(names, (LEFT_ADDRESS, RIGHT_ADDRESS), strict=True))
        self.controller_host = names[0]
        self.controller = f"{LEFT_ADDRESS}:{CONTROLLER_PORT}"

    def _wire(self) -> None:
        self._stack.enter_context(self._link)
        self._networks = dict(zip(self._names, (self._link.left, self._link.right), strict=True))
