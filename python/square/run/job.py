"""The parent of `square run`: workers, a controller, and one policy after another."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from square._core import Controller, Plan, Scenario, __version__, make_plan
from square.errors import FailedPreconditionError
from square.run import admission, operations
from square.run.clocks import Clocks
from square.run.interruption import signals_to
from square.run.machines import Machines, MachinesFile
from square.run.mailbox import CALL_THREAD_NAME, Mailbox
from square.run.measurement import Measurement
from square.run.network import NETNS, PACE, Loopback, Namespaces, Network
from square.run.outcome import PolicyOutcome, RunOutcome
from square.run.processes import Workers
from square.run.processors import ProcessorUse
from square.run.progress import Display
from square.run.protocol import (
    Begin,
    Counted,
    Digest,
    Event,
    Finished,
    Isolated,
    Joined,
    Prepare,
    Prepared,
    Progress,
    Ready,
    Seat,
    Seats,
    Verify,
    Wired,
)
from square.run.stillness import Stillness
from square.run.variants import with_variant

# A run may take this many times what is planned, and this much for all the rest.
TIME_LIMIT_FACTOR = 10.0
TIME_LIMIT_SECONDS = 60.0
# From the last "prepared" to the common start: time for the command to reach everyone.
START_LEAD_SECONDS = 0.25
# A member waits this much longer than the run, which knows better what was missing.
MEMBER_GRACE_SECONDS = 10.0
# How often it is looked whether the controller has made the policy's own plan, and for how long. Where that
# cannot be made the provisional one stays, and is what runs.
PLAN_LOOK_SECONDS = 0.02
PLAN_SECONDS = 30.0
# How long the controller may take to close.
CONTROLLER_STOP_SECONDS = 1.0

_SHOWN_NODES = 5

Kind = TypeVar("Kind", bound=Event)


@dataclass(frozen=True)
class RunOptions:
    policies: tuple[str, ...]  # the first is compared with the others
    input: Path | None = None
    seed: int = 1
    timeout_seconds: float | None = None
    emulate: str = PACE  # or NETNS
    paced: bool = True  # False: with NETNS only
    machines: MachinesFile | None = None  # where nodes run, whatever `emulate` says; None: here


def run_scenario(scenario: Scenario, options: RunOptions, display: Display) -> RunOutcome:
    """Runs the scenario's collectives, once under each policy, on this machine or those of the options.

    Main thread only. Raises ``Interrupted`` for SIGINT and SIGTERM, ``UnavailableError`` if
    a worker dies, ``DataLossError`` if a destination has other bytes than its source,
    ``DeadlineExceededError`` past the time limit, and what planning raises. When it returns
    or raises, its processes are gone.
    """
    admission.check(scenario, options.policies, options.input, elsewhere=options.machines is not None)
    job = _Job(scenario, options, display)
    with signals_to(job.mailbox.notify_signal):
        try:
            return job.run()
        finally:
            display.end()
            job.close()


def _network(scenario: Scenario, options: RunOptions) -> Network:
    if options.machines is not None:
        return Machines(options.machines, scenario)
    return Namespaces(scenario, paced=options.paced) if options.emulate == NETNS else Loopback()


class _Job:
    def __init__(self, scenario: Scenario, options: RunOptions, display: Display) -> None:
        self.mailbox = Mailbox()
        self._scenario = scenario
        self._options = options
        self._display = display
        self._nodes = [node.name for node in scenario.topology.nodes]
        self._served = operations.without_rings(scenario)
        self._network = _network(scenario, options)
        self._workers = Workers(self.mailbox.notify)
        self._clocks = Clocks()
        self._controller: Controller | None = None

    def run(self) -> RunOutcome:
        self.mailbox.doing = "planning"
        plans = [self._plan(policy) for policy in self._options.policies]
        self.mailbox.limit(self._time_limit(plans))
        self.mailbox.doing = "starting"
        controller = self._start()
        outcomes = [self._run_policy(controller, number, plan) for number, plan in enumerate(plans)]
        file = self._options.input
        return RunOutcome(
            scenario=self._scenario.name,
            nodes=len(self._nodes),
            links=self._scenario.topology.link_count,
            input=None if file is None else str(file),
            seed=self._options.seed,
            network=self._network.outcome,
            policies=tuple(outcomes),
            wall_seconds=self.mailbox.elapsed_seconds,
        )

    def close(self) -> None:
        """Ends everything that runs, in a bounded time."""
        self._workers.close()
        if self._controller is not None:
            stop = threading.Thread(target=self._controller.stop, name=CALL_THREAD_NAME, daemon=True)
            stop.start()
            stop.join(CONTROLLER_STOP_SECONDS)
        self._network.close()

    def _plan(self, policy: str) -> Plan:
        scenario = with_variant(self._scenario, policy)
        plan = self.mailbox.call(lambda: make_plan(scenario).plan)
        admission.check_plan(plan)
        return plan

    def _time_limit(self, plans: list[Plan]) -> float:
        if self._options.timeout_seconds is not None:
            return self._options.timeout_seconds
        planned = sum(max(c.completion_seconds for c in plan.collectives) for plan in plans)
        return TIME_LIMIT_SECONDS + TIME_LIMIT_FACTOR * planned

    # Bringing the overlay up.

    def _start(self) -> Controller:
        self._display.say(f"starting {len(self._nodes)} nodes, one process each, and a controller")
        first = with_variant(self._served, self._options.policies[0])
        self.mailbox.has_workers = True
        for node in self._nodes:
            self._workers.start(node, self._network.command(node))
        if self._network.isolates:
            self._wire()
        self._controller = controller = self.mailbox.call(lambda: self._network.controller(first))
        for node in self._nodes:
            self._workers.send(node, self._network.join(node, controller.address))
        self._check_versions(self._gather(Joined, "joined"))
        if not self._network.shares_clock:
            self._clocks.measure(self._nodes, self._workers, self.mailbox)
        self.mailbox.call(lambda: controller.wait_for_nodes(self._nodes, self.mailbox.left_seconds))
        file = None if self._options.input is None else str(self._options.input.absolute())
        for node in self._nodes:
            left = self.mailbox.left_seconds
            self._workers.send(node, Seats(self._seats(node), file, self._options.seed, left))
        self._gather(Ready, "ready")
        return controller

    def _wire(self) -> None:
        self._gather(Isolated, "in a network of their own")
        wires = self.mailbox.call(lambda: self._network.wire(self._workers.process_ids()))
        for node, wire in wires.items():
            self._workers.send(node, wire)
        self._gather(Wired, "wired")

    def _seats(self, node: str) -> tuple[Seat, ...]:
        seats = []
        for collective in self._scenario.collectives:
            members = tuple(collective.members)
            if node not in members:
                continue
            root = collective.root
            seats.append(
                Seat(
                    collective=collective.id,
                    tenant=collective.tenant,
                    members=members,
                    rank=members.index(node),
                    root_rank=None if root is None else members.index(root),
                    size_bytes=collective.size_bytes,
                    weight=collective.weight,
                    op=collective.op,
                    is_ring=operations.is_ring(collective),
                )
            )
        return tuple(seats)

    def _check_versions(self, joined: dict[str, Joined]) -> None:
        for node, there in joined.items():
            if there.version != __version__:
                raise FailedPreconditionError(
                    f"node {node} has square {there.version}, and this is {__version__}: install one on both"
                )

    def _gather(self, kind: type[Kind], what: str) -> dict[str, Kind]:
        """Waits until every node has said so; what, by node."""
        missing = set(self._nodes)
        all_said: dict[str, Kind] = {}

        def names() -> str:
            shown = sorted(missing)[:_SHOWN_NODES]
            return f"{len(missing)} of {len(self._nodes)} nodes are not {what}: {', '.join(shown)}"

        while missing:
            said = self.mailbox.next(names)
            if isinstance(said.event, kind):
                all_said[said.node] = said.event
                missing.discard(said.node)
        return all_said

    # One policy.

    def _run_policy(self, controller: Controller, number: int, foreseen: Plan) -> PolicyOutcome:
        policy = self._options.policies[number]
        self.mailbox.doing = f"policy {policy}"
        if number > 0:
            changed = with_variant(self._served, policy).policy
            self.mailbox.call(lambda: controller.set_policy(changed))
        plan = self.mailbox.call(lambda: _own_plan(controller))
        self._send_all(Prepare(number, plan.epoch))
        self._gather(Prepared, "prepared")
        measurement = Measurement(self._scenario, plan, foreseen, self._options.seed, policy)
        self._display.begin(policy, measurement.expectations(), measurement.total_bytes)
        start = time.monotonic() + START_LEAD_SECONDS + self._clocks.longest_round_trip
        for node in self._nodes:
            at, limit = self._clocks.there(node, start), self.mailbox.left_seconds + MEMBER_GRACE_SECONDS
            self._workers.send(node, Begin(number, at, limit))
        self._watch(measurement, number, start)
        self._display.end()
        self._send_all(Verify(number))
        while not measurement.is_compared:
            said = self.mailbox.next(measurement.missing)
            event = said.event
            if isinstance(event, Digest) and event.run == number:
                measurement.take_digest(event)
            elif isinstance(event, Counted) and event.run == number:
                measurement.take_counts(said.node, event)
        return measurement.outcome()

    def _watch(self, measurement: Measurement, run: int, start: float) -> None:
        delivered: dict[str, int] = {}
        stillness = Stillness((node for c in self._scenario.collectives for node in c.members), start)
        time.sleep(max(0.0, start - time.monotonic()))  # the wait is no use of the machine
        use = ProcessorUse()
        while not measurement.is_finished:
            said = self.mailbox.next(measurement.missing)
            event, now = said.event, time.monotonic()
            for words in (*stillness.note(said.node, now), *stillness.look(now)):
                self._display.say(words)
            if isinstance(event, Finished) and event.run == run:
                at = self._clocks.here(said.node, event.at)
                measurement.take_finish(event.collective, event.rank, at - start)
                stillness.note_finished(said.node)
            elif isinstance(event, Progress) and event.run == run:
                delivered[said.node] = event.delivered_bytes
            else:
                continue
            self._display.update(now - start, sum(delivered.values()), measurement.destinations_done())
        if self._options.machines is None:
            measurement.busy = use.busy()

    def _send_all(self, command: Prepare | Verify) -> None:
        for node in self._nodes:
            self._workers.send(node, command)


def _own_plan(controller: Controller) -> Plan:
    """The policy's: what is published first may be provisional. Blocks."""
    deadline = time.monotonic() + PLAN_SECONDS
    while True:
        plan = controller.plan()
        assert plan is not None
        if not plan.provisional or time.monotonic() > deadline:
            return plan
        time.sleep(PLAN_LOOK_SECONDS)
