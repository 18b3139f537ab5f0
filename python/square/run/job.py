"""The parent of `square run`: workers, a controller, and one policy after another."""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from square._core import Controller, Plan, Scenario, make_plan
from square.errors import BY_CODE, DeadlineExceededError, SquareError, UnavailableError, UnknownError
from square.planning import with_policy
from square.run import admission
from square.run.interruption import Interrupted, signals_to
from square.run.measurement import Measurement
from square.run.outcome import PolicyOutcome, RunOutcome
from square.run.processes import Gone, Said, Workers
from square.run.progress import Display
from square.run.protocol import (
    Begin,
    Digest,
    Event,
    Failed,
    Finished,
    Join,
    Joined,
    Prepare,
    Prepared,
    Progress,
    Ready,
    Seat,
    Seats,
    Verify,
)

# A run may take this many times what is planned, and this much for all the rest.
TIME_LIMIT_FACTOR = 10.0
TIME_LIMIT_SECONDS = 60.0
# From the last "prepared" to the common start: time for the command to reach everyone.
START_LEAD_SECONDS = 0.25
# A member waits this much longer than the run, which knows better what was missing.
MEMBER_GRACE_SECONDS = 10.0
# A member's failure is often a neighbour's death; this long to hear of it.
DEATH_NOTICE_SECONDS = 0.5
# How long the controller may take to close.
CONTROLLER_STOP_SECONDS = 1.0
# Threads of this name may be inside libsquare when a run is given up.
CALL_THREAD_NAME = "square-call"

_SHOWN_NODES = 5

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class RunOptions:
    policies: tuple[str, ...]  # the first is compared with the others
    input: Path | None = None
    seed: int = 1
    timeout_seconds: float | None = None


@dataclass(frozen=True)
class _Signal:
    number: int


@dataclass(frozen=True)
class _Returned:
    call: object
    value: object
    error: BaseException | None


def run_scenario(scenario: Scenario, options: RunOptions, display: Display) -> RunOutcome:
    """Runs the scenario's collectives on this machine, once under each policy.

    Main thread only. Raises ``Interrupted`` for SIGINT and SIGTERM, ``UnavailableError`` if
    a worker dies, ``DataLossError`` if a destination has other bytes than its source,
    ``DeadlineExceededError`` past the time limit, and what planning raises. When it returns
    or raises, its processes are gone.
    """
    admission.check(scenario)
    job = _Job(scenario, options, display)
    with signals_to(lambda number: job.events.put(_Signal(number))):
        try:
            return job.run()
        finally:
            display.end()
            job.close()


class _Job:
    def __init__(self, scenario: Scenario, options: RunOptions, display: Display) -> None:
        self.events: queue.SimpleQueue[_Signal | _Returned | Said | Gone] = queue.SimpleQueue()
        self._scenario = scenario
        self._options = options
        self._display = display
        self._nodes = [node.name for node in scenario.topology.nodes]
        self._workers: Workers | None = None
        self._controller: Controller | None = None
        self._began = time.monotonic()
        self._deadline = float("inf")
        self._doing = "planning"
        self._measurement: Measurement | None = None

    def run(self) -> RunOutcome:
        plans = [self._plan(policy) for policy in self._options.policies]
        self._set_deadline(plans)
        self._start()
        outcomes = [self._run_policy(number) for number in range(len(self._options.policies))]
        file = self._options.input
        return RunOutcome(
            scenario=self._scenario.name,
            nodes=len(self._nodes),
            links=self._scenario.topology.link_count,
            input=None if file is None else str(file),
            seed=self._options.seed,
            policies=tuple(outcomes),
            wall_seconds=time.monotonic() - self._began,
        )

    def close(self) -> None:
        """Ends everything that runs, in a bounded time."""
        if self._workers is not None:
            self._workers.close()
        if self._controller is not None:
            stop = threading.Thread(target=self._controller.stop, name=CALL_THREAD_NAME, daemon=True)
            stop.start()
            stop.join(CONTROLLER_STOP_SECONDS)

    def _plan(self, policy: str) -> Plan:
        scenario = with_policy(self._scenario, policy=policy)
        plan = self._call(lambda: make_plan(scenario).plan)
        admission.check_plan(plan)
        return plan

    def _set_deadline(self, plans: list[Plan]) -> None:
        limit = self._options.timeout_seconds
        if limit is None:
            planned = sum(max(c.completion_seconds for c in plan.collectives) for plan in plans)
            limit = TIME_LIMIT_SECONDS + TIME_LIMIT_FACTOR * planned
        self._limit = limit
        self._deadline = self._began + limit

    # Bringing the overlay up.

    def _start(self) -> None:
        self._doing = "starting"
        self._display.say(f"starting {len(self._nodes)} nodes, one process each, and a controller")
        first = with_policy(self._scenario, policy=self._options.policies[0])
        self._controller = controller = self._call(lambda: Controller(first))
        self._workers = Workers(self.events.put)
        for node in self._nodes:
            self._workers.start(node)
            self._workers.send(node, Join(node, controller.address, "", self._left()))
        self._gather(Joined, "joined")
        self._call(lambda: controller.wait_for_nodes(self._nodes, self._left()))
        file = None if self._options.input is None else str(self._options.input.absolute())
        for node in self._nodes:
            self._workers.send(node, Seats(self._seats(node), file, self._options.seed, self._left()))
        self._gather(Ready, "ready")

    def _seats(self, node: str) -> tuple[Seat, ...]:
        seats = []
        for collective in self._scenario.collectives:
            members = tuple(collective.members)
            if node not in members:
                continue
            assert collective.root is not None
            seats.append(
                Seat(
                    collective=collective.id,
                    tenant=collective.tenant,
                    members=members,
                    rank=members.index(node),
                    root_rank=members.index(collective.root),
                    size_bytes=collective.size_bytes,
                    weight=collective.weight,
                )
            )
        return tuple(seats)

    # One policy.

    def _run_policy(self, number: int) -> PolicyOutcome:
        controller, policy = self._controller, self._options.policies[number]
        assert controller is not None
        self._doing = f"policy {policy}"
        if number > 0:
            changed = with_policy(self._scenario, policy=policy).policy
            self._call(lambda: controller.set_policy(changed))
        plan = controller.plan()
        assert plan is not None
        self._send_all(Prepare(number))
        self._gather(Prepared, "prepared")
        self._measurement = measurement = Measurement(self._scenario, plan)
        self._display.begin(policy, measurement.expectations(), measurement.total_bytes)
        start = time.monotonic() + START_LEAD_SECONDS
        self._send_all(Begin(number, start, self._left() + MEMBER_GRACE_SECONDS))
        self._watch(measurement, number, start)
        self._display.end()
        self._send_all(Verify(number))
        while not measurement.is_compared:
            said = self._next(measurement.missing)
            if isinstance(said.event, Digest) and said.event.run == number:
                measurement.take_digest(said.event)
        self._measurement = None
        return measurement.outcome()

    def _watch(self, measurement: Measurement, run: int, start: float) -> None:
        delivered: dict[str, int] = {}
        while not measurement.is_finished:
            said = self._next(measurement.missing)
            event = said.event
            if isinstance(event, Finished) and event.run == run:
                measurement.take_finish(event.collective, event.rank, event.at - start)
            elif isinstance(event, Progress) and event.run == run:
                delivered[said.node] = event.delivered_bytes
            else:
                continue
            elapsed = time.monotonic() - start
            self._display.update(elapsed, sum(delivered.values()), measurement.destinations_done())

    # Waiting, for anything.

    def _left(self) -> float:
        return max(0.0, min(self._deadline - time.monotonic(), 86_400.0))

    def _send_all(self, command: Prepare | Begin | Verify) -> None:
        assert self._workers is not None
        for node in self._nodes:
            self._workers.send(node, command)

    def _gather(self, kind: type[Event], what: str) -> None:
        """Waits until every node has said so."""
        missing = set(self._nodes)

        def names() -> str:
            shown = sorted(missing)[:_SHOWN_NODES]
            return f"{len(missing)} of {len(self._nodes)} nodes are not {what}: {', '.join(shown)}"

        while missing:
            said = self._next(names)
            if isinstance(said.event, kind):
                missing.discard(said.node)

    def _call(self, function: Callable[[], Answer]) -> Answer:
        """What `function` returns. It may block in libsquare: signals and deaths are still heard."""
        call = object()

        def work() -> None:
            try:
                self.events.put(_Returned(call, function(), None))
            except BaseException as error:
                self.events.put(_Returned(call, None, error))

        threading.Thread(target=work, name=CALL_THREAD_NAME, daemon=True).start()
        while True:
            event = self._next_event(lambda: "the controller has not answered")
            if not isinstance(event, _Returned) or event.call is not call:
                continue
            if isinstance(event.error, SquareError):
                self._fail(event.error)
            if event.error is not None:
                raise event.error
            return event.value  # type: ignore[return-value]

    def _next(self, missing: Callable[[], str]) -> Said:
        while True:
            event = self._next_event(missing)
            if isinstance(event, Said):
                return event

    def _next_event(self, missing: Callable[[], str]) -> Said | _Returned:
        try:
            event = self.events.get(timeout=self._left())
        except queue.Empty:
            raise DeadlineExceededError(
                f"{self._doing}: over the time limit of {self._limit:.0f} s; {missing()}; "
                "--timeout sets another limit"
            ) from None
        if isinstance(event, _Signal):
            raise Interrupted(event.number, f"the run was in {self._doing} and was")
        if isinstance(event, Gone):
            raise self._death(event)
        if isinstance(event, Said) and isinstance(event.event, Failed):
            kinds = {kind.code: kind for kind in BY_CODE.values()}
            error = kinds.get(event.event.code, UnknownError)(f"node {event.node}: {event.event.message}")
            self._fail(error)
        return event

    def _fail(self, error: SquareError) -> None:
        """Raises the death that explains the error, if one is heard of soon, else the error."""
        if self._workers is None:
            raise error
        deadline = time.monotonic() + DEATH_NOTICE_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            try:
                event = self.events.get(timeout=left)
            except queue.Empty:
                break
            if isinstance(event, _Signal):
                raise Interrupted(event.number, f"the run was in {self._doing} and was")
            if isinstance(event, Gone):
                raise self._death(event)
        raise type(error)(f"{self._doing}: {error}")

    def _death(self, gone: Gone) -> SquareError:
        text = f"{self._doing}: {gone}; the run was ended"
        return UnavailableError(f"{text}\n{gone.complaints}" if gone.complaints else text)
