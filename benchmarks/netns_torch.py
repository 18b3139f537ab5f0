"""torch.distributed in network namespaces: a rank on every site of a network that the kernel shapes."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import machine
import netns_run
import square
from square.run import sites as emulated

WORKER = Path(__file__).resolve().with_name("netns_torch_worker.py")
STORE_PORT = 29500


class Sites:
    """A rank's process at every site, which outlives the process groups that it is in."""

    def __init__(self, topology: square.Topology) -> None:
        self._topology = topology
        self._sites = emulated.Sites(topology)
        self._names = self._sites.names
        self._workers: list[subprocess.Popen[str]] = []
        self._runs = 0

    def __enter__(self) -> Self:
        self._sites.__enter__()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        try:
            for name in self._names:
                self._workers.append(self._sites.start(name, [sys.executable, str(WORKER)], **pipes))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()
        self._sites.close()

    def all_reduce(self, backend: str, elements: int, rounds: int, *, insecure: bool = False) -> list[float]:
        """Seconds of every round, of the rank that took longest. Raises where results are wrong.

        ``insecure``: square's links without TLS, and its blocks not sealed."""
        return self._run("all_reduce", backend, elements, rounds, insecure)

    def broadcast(self, backend: str, elements: int, rounds: int) -> list[float]:
        """The same, from the first site."""
        return self._run("broadcast", backend, elements, rounds, False)

    def _run(self, operation: str, backend: str, elements: int, rounds: int, insecure: bool) -> list[float]:
        scenario = square.Scenario(self._topology, square.Policy("exact"), name="sites")
        self._runs += 1
        master = {
            "MASTER_ADDR": self._sites.address_of(self._names[0]),
            "MASTER_PORT": str(STORE_PORT + self._runs),
        }
        with self._sites.controller(scenario, insecure=insecure) as controller:
            commands = [
                {
                    "operation": operation,
                    "backend": backend,
                    "rank": rank,
                    "size": len(self._names),
                    "elements": elements,
                    "rounds": rounds,
                    "insecure": insecure,
                    "environment": self._sites.environment(name, controller) | master,
                }
                for rank, name in enumerate(self._names)
            ]
            answers = self._all(commands)
        if not all(answer["right"] for answer in answers):
            raise SystemExit(f"{backend}: {operation} gave wrong results")
        if backend == "square":
            trees = 2 if operation == "all_reduce" else 1
            gb_hops = 4e-9 * elements * trees * (len(self._names) - 1) * rounds
            seconds = sum(answers[0]["seconds"])
            self.cost = machine.Cost()
            self.cost.add(sum(a["cpu_seconds"] for a in answers), gb_hops, seconds, answers[0]["busy"])
            netns_run.cost.add(self.cost.cpu_seconds, gb_hops, seconds, answers[0]["busy"])
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
