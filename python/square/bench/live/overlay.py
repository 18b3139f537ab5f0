"""An overlay that lives while an experiment changes it."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from square._core import Controller, Policy, Scenario, Topology
from square.bench.live.course import Course, Curve, Meter, Points, Verdict
from square.errors import AbortedError, DeadlineExceededError
from square.run import namespaces, wiring
from square.run.processors import ProcessorUse
from square.run.sites import Sites
from square.temporary import temporary_folder

ANSWER_SECONDS = 60.0
POLL_SECONDS = 0.05
# Of a broadcast: about a fifth of a second at 50 Mbit/s.
CHUNK_BYTES = 1 << 20


class LiveOverlay:
    """Sites, their nodes and a controller, as a context. Needs root, and for the calling thread to outlive
    it. Not thread-safe."""

    def __init__(self, topology: Topology, policy: str = "exact") -> None:
        self._scenario = Scenario(topology, Policy(policy), name="live overlay")
        self._capacities = {(link.from_node, link.to_node): link.capacity_bps for link in topology.links}
        self._sites = Sites(topology)
        self._names = [node.name for node in topology.nodes]
        self._folder = temporary_folder("square-live-")
        self._controller: Controller | None = None
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._lock = threading.Lock()  # of what readers write: what follows
        self._said: dict[str, set[str]] = {}  # "joined", "begun", "ended": of whom
        self._failures: list[str] = []
        self._ended: set[str] = set()
        self._verified_bytes = 0
        self._meter = Meter()
        self._plans: list[tuple[float, dict[str, float]]] = []
        self._destinations: dict[str, int] = {}  # by tenant
        self._members: dict[str, list[str]] = {}  # by group
        self._marks: list[tuple[float, str]] = []
        self._is_over = threading.Event()

    def __enter__(self) -> Self:
        self._sites.__enter__()
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._is_over.set()
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        if self._controller is not None:
            self._controller.stop()
        self._sites.close()
        self._folder.cleanup()

    def begin(self, tenant: str, group: str, members: Sequence[str]) -> None:
        """A tenant's broadcasts from the first member to the others begin; it does not wait for that."""
        self._destinations[tenant] = len(members) - 1
        self._members[group] = list(members)
        for rank, site in enumerate(members):
            self._tell(
                site,
                do="begin",
                tenant=tenant,
                group=group,
                members=list(members),
                rank=rank,
                chunk_bytes=CHUNK_BYTES,
            )

    def wait_for(self, what: str, group: str) -> None:
        """Until all its members have ``"begun"`` or ``"ended"``."""
        self._wait(what, {f"{group}@{site}" for site in self._members[group]})

    def end(self, group: str) -> None:
        with self._lock:
            self._ended.add(group)
        for site in self._members[group]:
            self._tell(site, do="end", group=group)

    def mark(self, what: str) -> float:
        """Notes that this happens now; returns the time."""
        self._marks.append((time.monotonic(), what))
        return self._marks[-1][0]

    def set_capacity(self, tail: str, head: str, bps: float) -> None:
        """Of a link as the kernel shapes it; nobody is told."""
        before = self._capacities[tail, head]
        shaper = wiring.shaper(bps, before)
        line = f"qdisc change dev to{self._names.index(head)} root {shaper}"
        self._sites.network(tail).run(lambda: namespaces.run_batch("tc", [line]))

    def kill(self, site: str) -> None:
        """As when its machine loses power."""
        self._processes[site].kill()

    def stop_controller(self) -> None:
        assert self._controller is not None
        self._controller.stop()
        self._controller = None  # it has the store as long as it is there

    def start_controller(self) -> None:
        """With what the one before has stored, at its address."""
        self._controller = self._make_controller(self._port)

    def course(self, experiment: str, seed: int, is_quick: bool, begin: float, use: ProcessorUse) -> Course:
        """All that was seen from ``begin`` until now, without verdicts. Raises ``AbortedError`` where an
        operation failed that nobody had ended, or brought other bytes."""
        end = time.monotonic()
        busy = use.busy()
        for group in self._members.keys() - self._ended:
            self.end(group)
            self.wait_for("ended", group)
        with self._lock:
            if self._failures:
                raise AbortedError("; ".join(self._failures[:3]))
            curves = tuple(
                Curve(
                    tenant, self._meter.points(tenant, begin, end, count), self._planned(tenant, begin, end)
                )
                for tenant, count in self._destinations.items()
            )
            marks = tuple((at - begin, what) for at, what in self._marks)
            return Course(experiment, seed, is_quick, curves, marks, (), self._verified_bytes, busy)

    def _planned(self, tenant: str, begin: float, end: float) -> Points:
        """Where it changes."""
        points: list[tuple[float, float]] = []
        for at, rates in self._plans:
            rate = rates.get(tenant, 0.0)
            if at <= end and (not points or points[-1][1] != rate):
                points.append((max(0.0, at - begin), rate))
        return tuple(points)

    def _start(self) -> None:
        self._controller = self._make_controller("0")
        self._port = self._controller.address.rpartition(":")[2]
        for site in self._names:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            command = [sys.executable, "-P", "-m", "square.bench.live.site"]
            self._processes[site] = self._sites.start(site, command, **pipes)
            threading.Thread(target=self._read, args=(site,), daemon=True).start()
        for site in self._names:
            self._tell(
                site,
                do="join",
                name=site,
                controller=self._controller.address,
                bind_address=f"{self._sites.address_of(site)}:0",
                identity=self._sites.identity("node", site),
            )
        self._wait("joined", set(self._names))
        self._controller.wait_for_nodes(self._names, ANSWER_SECONDS)
        threading.Thread(target=self._watch_plans, daemon=True).start()

    def _make_controller(self, port: str) -> Controller:
        return self._sites.beside(
            lambda own: Controller(
                self._scenario,
                bind_address=f"{own}:{port}",
                identity=self._sites.identity("controller", "live"),
                store=Path(self._folder.name) / "store",
            )
        )

    def _tell(self, site: str, **command: Any) -> None:
        pipe = self._processes[site].stdin
        assert pipe is not None
        pipe.write(json.dumps(command) + "\n")
        pipe.flush()

    def _read(self, site: str) -> None:
        pipe = self._processes[site].stdout
        assert pipe is not None
        for line in pipe:
            said = json.loads(line)
            with self._lock:
                self._note(site, said)

    def _note(self, site: str, said: dict[str, Any]) -> None:
        if "delivered" in said:
            self._meter.note(site, said["at"], said["delivered"])
        elif "failed" in said:
            if said["group"] not in self._ended:
                self._failures.append(f"{said['group'] or 'node'} at {site}: {said['failed']}")
            self._said.setdefault("ended", set()).add(f"{said['group']}@{site}")
        elif "joined" in said:
            self._said.setdefault("joined", set()).add(site)
        else:
            what = "begun" if "begun" in said else "ended"
            self._said.setdefault(what, set()).add(f"{said[what]}@{site}")
            self._verified_bytes += said.get("verified_bytes", 0)

    def _wait(self, what: str, whom: set[str]) -> None:
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            with self._lock:
                missing = whom - self._said.get(what, set())
                failures = list(self._failures)
            if failures:
                raise AbortedError("; ".join(failures[:3]))
            if not missing:
                return
            if time.monotonic() > deadline:
                raise DeadlineExceededError(f"not {what} within {ANSWER_SECONDS:.0f} s: {min(missing)}")
            time.sleep(POLL_SECONDS)

    def _watch_plans(self) -> None:
        while not self._is_over.wait(POLL_SECONDS):
            controller = self._controller
            plan = None
            with suppress(Exception):  # between one controller and the next there is none
                plan = controller.plan() if controller else None
            if plan is None:
                continue
            rates: dict[str, float] = {}
            for collective in plan.collectives:
                rates[collective.tenant] = rates.get(collective.tenant, 0.0) + collective.rate_bps
            with self._lock:
                if not self._plans or self._plans[-1][1] != rates:
                    self._plans.append((time.monotonic(), rates))


def with_verdicts(course: Course, verdicts: Sequence[Verdict]) -> Course:
    return Course(**{**vars(course), "verdicts": tuple(verdicts)})
