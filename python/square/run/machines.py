"""Nodes on other machines, which `square run` reaches over ssh: the file that names them, and the network.

A worker is started there as it is here, with ssh between its pipes and ours. When ssh ends, so does the
worker's standard input, and with it the worker.
"""

import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from square._core import Controller, Identity, Scenario
from square.errors import InvalidArgumentError, NotFoundError
from square.run.network import MACHINES, NetworkOutcome
from square.run.processes import MODULE
from square.run.protocol import Join, Wire

CONTROLLER_PORT = 7400
NODE_PORT = 7401
# Nobody is there to be asked for a password, and a connection that is silent for 15 s is over.
SSH = (
    *("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
)
MAX_FILE_BYTES = 1 << 20

_CONTROLLER_KEYS = {"address", "port"}
_MACHINE_KEYS = {"node", "ssh", "address", "port", "python"}


@dataclass(frozen=True)
class Machine:
    """Where a node runs."""

    node: str
    ssh: tuple[str, ...]  # the destination, after options of ssh if need be
    address: str  # as the other nodes reach it
    port: int = NODE_PORT
    python: str = "python3"

    def command(self) -> list[str]:
        """Of its worker, run here."""
        there = shlex.join([self.python, "-P", "-m", MODULE, "0"])
        return [*SSH, *self.ssh, there]


@dataclass(frozen=True)
class MachinesFile:
    address: str  # of this machine, as the nodes reach its controller
    port: int
    machines: Mapping[str, Machine]

    @classmethod
    def read(cls, file: Path) -> "MachinesFile":
        """Raises ``NotFoundError`` without it, ``InvalidArgumentError`` where it says something else."""
        try:
            with file.open("rb") as opened:
                data = opened.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise NotFoundError(f"{file}: {error.strerror}") from error
        if len(data) > MAX_FILE_BYTES:
            raise InvalidArgumentError(f"{file}: over {MAX_FILE_BYTES} bytes")
        try:
            document = tomllib.loads(data.decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(f"{file}: {error}") from error
        return _Reader(str(file)).file(document)

    def check(self, scenario: Scenario) -> None:
        """Raises ``InvalidArgumentError`` for nodes of the scenario that are nowhere."""
        missing = [node.name for node in scenario.topology.nodes if node.name not in self.machines]
        if missing:
            raise InvalidArgumentError(
                f"no machine is named for {', '.join(missing[:5])}: add a [[machine]] with that `node`"
            )


class _Reader:
    """Says the place of what is wrong."""

    def __init__(self, file: str) -> None:
        self._file = file

    def file(self, document: dict[str, Any]) -> MachinesFile:
        self._known(document, {"controller", "machine"}, "the file")
        controller = self._table(document.get("controller"), "[controller]")
        self._known(controller, _CONTROLLER_KEYS, "[controller]")
        listed = document.get("machine")
        if not isinstance(listed, list) or not listed:
            raise self._error("name at least one [[machine]]")
        machines: dict[str, Machine] = {}
        for number, table in enumerate(listed):
            machine = self._machine(self._table(table, f"machine {number}"), f"machine {number}")
            if machine.node in machines:
                raise self._error(f"node {machine.node} is on two machines")
            machines[machine.node] = machine
        return MachinesFile(
            self._text(controller, "address", "[controller]"),
            self._port(controller, CONTROLLER_PORT, "[controller]"),
            machines,
        )

    def _machine(self, table: dict[str, Any], where: str) -> Machine:
        self._known(table, _MACHINE_KEYS, where)
        ssh = table.get("ssh")
        words = [ssh] if isinstance(ssh, str) else ssh
        if not isinstance(words, list) or not words or not all(isinstance(w, str) and w for w in words):
            raise self._error(f"{where}: `ssh` is a destination (user@host), or a list of ssh's arguments")
        return Machine(
            self._text(table, "node", where),
            tuple(words),
            self._text(table, "address", where),
            self._port(table, NODE_PORT, where),
            self._text(table, "python", where, Machine.python),
        )

    def _known(self, table: dict[str, Any], keys: set[str], where: str) -> None:
        for key in table.keys() - keys:
            raise self._error(f"{where}: unknown key `{key}`; there are {', '.join(sorted(keys))}")

    def _table(self, value: object, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._error(f"{where} is missing, or no table")
        return value

    def _text(self, table: dict[str, Any], key: str, where: str, default: str | None = None) -> str:
        value = table.get(key, default)
        if not isinstance(value, str) or not value:
            raise self._error(f"{where}: `{key}` is missing, or no text")
        return value

    def _port(self, table: dict[str, Any], default: int, where: str) -> int:
        value = table.get("port", default)
        if type(value) is not int or not 0 < value < 1 << 16:
            raise self._error(f"{where}: `port` is a number from 1 to 65535")
        return value

    def _error(self, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self._file}: {what}")


class Machines:
    """Nothing is made: what is between the machines is there.

    All connections are encrypted, with a key of the run's own that its workers get over ssh.
    """

    isolates = False
    shares_clock = False

    def __init__(self, file: MachinesFile, scenario: Scenario) -> None:
        file.check(scenario)
        self._file = file
        self._identity = Identity.make_own()

    @property
    def outcome(self) -> NetworkOutcome:
        return NetworkOutcome(MACHINES, paced=True, mtu_bytes=None, congestion_control="each machine's own")

    def command(self, node: str) -> list[str]:
        return self._file.machines[node].command()

    def wire(self, process_ids: Mapping[str, int]) -> dict[str, Wire]:
        return {}

    def controller(self, scenario: Scenario) -> Controller:
        return Controller(
            scenario,
            bind_address=_everywhere(self._file.address, self._file.port),
            advertised_address=_at(self._file.address, self._file.port),
            identity=self._identity,
        )

    def join(self, node: str, controller_address: str) -> Join:
        machine = self._file.machines[node]
        return Join(
            node,
            controller_address,
            _everywhere(machine.address, machine.port),
            self._identity.pem,
            advertised_address=_at(machine.address, machine.port),
        )

    def close(self) -> None:
        pass


def _at(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _everywhere(host: str, port: int) -> str:
    """Its address may be one that only others see."""
    return _at("::" if ":" in host else "0.0.0.0", port)
