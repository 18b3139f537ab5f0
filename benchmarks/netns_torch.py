"""torch.distributed in network namespaces: a rank on every site of a network that the kernel shapes."""

import json
import secrets
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import square
from square.run import namespaces
from square.run.wiring import CONTROLLER_ADDRESS, Wiring

WORKER = Path(__file__).resolve().with_name("netns_torch_worker.py")
STORE_PORT = 29500
# So that the worker's only thread enters its network before it imports anything.
ENTER = "import sys; from square.run.namespaces import isolate_process; isolate_process(); import runpy; "


class Sites:
    """The sites, wired. The controller of square has a network of its own, which nothing shapes."""

    def __init__(self, topology: square.Topology) -> None:
        self._topology = topology
        self._names = [node.name for node in topology.nodes]
        self._wiring = Wiring(topology)
        self._workers: list[subprocess.Popen[str]] = []
        self._runs = 0

    def __enter__(self) -> Self:
        namespaces.check_possible()
        self._own = namespaces.Namespace()
        script = ENTER + f"sys.argv = [{str(WORKER)!r}]; runpy.run_path({str(WORKER)!r}, run_name='__main__')"
        for _ in self._names:
            self._workers.append(
                subprocess.Popen(
                    [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
        ids = {name: self._answer(rank)["process"] for rank, name in enumerate(self._names)}
        lines = self._wiring.controller(ids)
        self._own.run(lambda: namespaces.run_batch("ip", lines))
        made = [self._wiring.node(name) for name in self._names]
        wires = [{"ip": one.ip, "tc": one.tc, "neighbours": one.neighbours} for one in made]
        self._all([{"command": "wire", "wire": wire} for wire in wires])
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()
        self._own.close()

    def all_reduce(self, backend: str, elements: int, rounds: int) -> list[float]:
        """Seconds of every round, of the rank that took longest. Raises where sums are wrong."""
        token = secrets.token_hex(16)
        scenario = square.Scenario(self._topology, square.Policy("exact"), name="sites")
        bind = f"{CONTROLLER_ADDRESS}:0"
        controller = self._own.run(lambda: square.Controller(scenario, bind_address=bind, token=token))
        self._runs += 1
        common = {
            "MASTER_ADDR": self._wiring.address_of(self._names[0]),
            "MASTER_PORT": str(STORE_PORT + self._runs),
            "GLOO_SOCKET_IFNAME": "lo",
            "SQUARE_CONTROLLER": controller.address,
            "SQUARE_TOKEN": token,
        }
        commands = [
            {
                "command": "all_reduce",
                "backend": backend,
                "rank": rank,
                "size": len(self._names),
                "elements": elements,
                "rounds": rounds,
                "environment": common
                | {"SQUARE_NODE": name, "SQUARE_INTERFACE": self._wiring.address_of(name)},
            }
            for rank, name in enumerate(self._names)
        ]
        try:
            answers = self._all(commands)
        finally:
            controller.stop()
        if not all(answer["right"] for answer in answers):
            raise SystemExit(f"{backend}: an all-reduce gave wrong sums")
        return [max(every) for every in zip(*(answer["seconds"] for answer in answers), strict=True)]

    def _all(self, commands: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        for worker, command in zip(self._workers, commands, strict=True):
            assert worker.stdin is not None
            worker.stdin.write(json.dumps(command) + "\n")
            worker.stdin.flush()
        return [self._answer(rank) for rank in range(len(commands))]

    def _answer(self, rank: int) -> dict[str, Any]:
        stdout = self._workers[rank].stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            raise SystemExit(f"the rank on {self._names[rank]} ended; see its messages above")
        return dict(json.loads(line))
