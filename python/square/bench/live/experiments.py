"""What is done to an overlay that lives, and what is asked of its tenants' rates.

Not in the paper. The links of each are drawn by its seed.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from square import planning
from square._core import Collective, Policy, Scenario, Topology
from square.bench.live.course import STEP_SECONDS, Course, Curve, Verdict, fairness_at, first_time
from square.bench.live.overlay import LiveOverlay, with_verdicts
from square.run.processors import ProcessorUse

MBPS = 1e6
LEAST_JAIN = 0.98
SETTLED_SECONDS = 2.0  # after an arrival or a departure
MOST_GAIN = 0.02  # of a greedy tenant
RECOVERED = 0.9  # of the rate that the changed network has for a tenant
RECOVERY_SECONDS = 15.0  # so long it is looked for


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    run: Callable[[int, bool], Course]  # seed, whether it may be shorter


def _mesh(count: int, seed: int, mbps: float) -> Topology:
    """As the paper's: links N(mean, a tenth of it)."""
    topology = Topology.full_mesh([f"n{number}" for number in range(count)])
    topology.draw_capacities(mbps * MBPS, 0.1 * mbps * MBPS, seed)
    return topology


def _names(topology: Topology) -> list[str]:
    return [node.name for node in topology.nodes]


def _from(root: str, names: Sequence[str]) -> list[str]:
    return [root, *(name for name in names if name != root)]


def fairness(seed: int, is_quick: bool) -> Course:
    """Tenants come, one a second, and go again."""
    tenants = 4 if is_quick else 6
    topology = _mesh(tenants, seed, 6.0)
    names = _names(topology)
    with LiveOverlay(topology) as overlay:
        use = ProcessorUse()
        begin = time.monotonic()
        for number in range(tenants):
            _sleep_until(begin + number)
            overlay.mark(f"tenant {number} comes")
            overlay.begin(f"tenant {number}", f"group {number}", _from(names[number], names))
        _sleep_until(begin + tenants + SETTLED_SECONDS)
        for number in range(tenants // 2):
            overlay.mark(f"tenant {number} goes")
            overlay.end(f"group {number}")
            time.sleep(1.0)
        time.sleep(SETTLED_SECONDS)
        course = overlay.course("fairness", seed, is_quick, begin, use)
    return with_verdicts(course, _fairness_verdicts(course))


def _fairness_verdicts(course: Course) -> list[Verdict]:
    """After each arrival: when all, the new one included, have rates in the proportion of the plan's."""
    slowest = lowest = None
    for begin, what in course.marks:
        if not what.endswith("comes"):
            continue
        # From when the newest is planned, else it would be fair without it.
        newest = next(curve for curve in course.curves if what == f"{curve.tenant} comes")
        times = [begin + step * STEP_SECONDS for step in range(1, int(SETTLED_SECONDS / STEP_SECONDS) + 1)]
        values = [fairness_at(course.curves, at) if newest.planned_at(at) > 0 else 0.0 for at in times]
        took = first_time(
            begin,
            begin + SETTLED_SECONDS,
            [(at, v >= LEAST_JAIN) for at, v in zip(times, values, strict=True)],
        )
        slowest = max(slowest or 0.0, SETTLED_SECONDS + 1 if took is None else took)
        lowest = min(1.0 if lowest is None else lowest, max(values))
    end = course.curves[0].measured[-1][0]
    return [
        Verdict("Jain's index within 2 s of an arrival, the lowest", lowest or 0.0, at_least=LEAST_JAIN),
        Verdict("longest until it is 0.98 after an arrival", slowest or 0.0, "s", at_most=SETTLED_SECONDS),
        Verdict("Jain's index at the end", fairness_at(course.curves, end), at_least=LEAST_JAIN),
    ]


def greedy(seed: int, is_quick: bool) -> Course:
    """One of two tenants opens many groups, and each of them sends all it can."""
    seconds = 3.0 if is_quick else 6.0
    topology = _mesh(4, seed, 30.0)
    names = _names(topology)
    with LiveOverlay(topology) as overlay:
        for tenant in ("modest", "greedy"):
            overlay.begin(tenant, tenant, names)
            overlay.wait_for("begun", tenant)
        time.sleep(SETTLED_SECONDS)
        use = ProcessorUse()
        begin = time.monotonic()
        time.sleep(seconds)
        overlay.mark("15 groups more")
        more = [f"greedy {number}" for number in range(15)]
        for group in more:
            overlay.begin("greedy", group, names)
        for group in more:
            overlay.wait_for("begun", group)
        changed = overlay.mark("all of them send")
        time.sleep(SETTLED_SECONDS + seconds)
        course = overlay.course("greedy", seed, is_quick, begin, use)
    settled = changed - begin + SETTLED_SECONDS
    rates = {curve.tenant: curve for curve in course.curves}
    gains = {
        tenant: _mean(curve, settled, settled + seconds) / _mean(curve, 0.0, seconds) - 1
        for tenant, curve in rates.items()
    }
    return with_verdicts(
        course,
        [
            Verdict("what the greedy tenant gains by 15 groups more", gains["greedy"], at_most=MOST_GAIN),
            Verdict("what the other gains by that", gains["modest"]),
        ],
    )


def fading(seed: int, is_quick: bool) -> Course:
    """A link falls to a quarter, and nobody is told."""
    topology = _mesh(4, seed, 30.0)
    names = _names(topology)
    with LiveOverlay(topology) as overlay:
        overlay.begin("tenant", "group", names)
        overlay.wait_for("begun", "group")
        time.sleep(SETTLED_SECONDS)
        use = ProcessorUse()
        begin = time.monotonic()
        time.sleep(2.0)
        left = _capacity(topology, names[0], names[1]) / 4
        changed = overlay.mark(f"{names[0]} to {names[1]}: {left / MBPS:.1f} Mbit/s")
        overlay.set_capacity(names[0], names[1], left)
        time.sleep(5.0 if is_quick else RECOVERY_SECONDS)
        course = overlay.course("fading", seed, is_quick, begin, use)
    changed_network = _alone(topology, names)
    changed_network.set_capacity(names[0], names[1], left)
    return with_verdicts(course, _recovery(course, changed - begin, _best(changed_network)))


def relay(seed: int, is_quick: bool) -> Course:
    """A relay between two members loses power; another is left."""
    drawn = random.Random(seed)
    topology = Topology()
    for name in ("a", "b", "r0", "r1"):
        topology.add_node(name)
    for middle in ("r0", "r1"):
        rate = drawn.uniform(25, 35) * MBPS
        for tail, head in (("a", middle), (middle, "b")):
            for ends in ((tail, head), (head, tail)):
                topology.add_link(*ends, capacity_bps=rate)
    with LiveOverlay(topology) as overlay:
        overlay.begin("tenant", "group", ["a", "b"])
        overlay.wait_for("begun", "group")
        time.sleep(SETTLED_SECONDS)
        use = ProcessorUse()
        begin = time.monotonic()
        time.sleep(2.0)
        changed = overlay.mark("r0 dies")
        overlay.kill("r0")
        time.sleep(5.0 if is_quick else RECOVERY_SECONDS)
        course = overlay.course("relay", seed, is_quick, begin, use)
    changed_network = _alone(topology, ["a", "b"])
    changed_network.remove_node("r0")
    return with_verdicts(course, _recovery(course, changed - begin, _best(changed_network)))


def controller(seed: int, is_quick: bool) -> Course:
    """The controller goes, and comes back with its store."""
    seconds = 2.0 if is_quick else 5.0
    topology = _mesh(4, seed, 30.0)
    names = _names(topology)
    with LiveOverlay(topology) as overlay:
        for number in range(2):
            overlay.begin(f"tenant {number}", f"group {number}", _from(names[number], names))
            overlay.wait_for("begun", f"group {number}")
        time.sleep(SETTLED_SECONDS)
        use = ProcessorUse()
        begin = time.monotonic()
        time.sleep(seconds)
        gone = overlay.mark("the controller goes")
        overlay.stop_controller()
        time.sleep(seconds)
        overlay.mark("it is back")
        overlay.start_controller()
        time.sleep(2 * seconds)
        course = overlay.course("controller", seed, is_quick, begin, use)
    lowest = min(
        bps / _mean(curve, 0.0, seconds)
        for curve in course.curves
        for at, bps in curve.measured
        if at >= gone - begin
    )
    after = min(_mean(c, 3 * seconds, 4 * seconds) / _mean(c, 0.0, seconds) for c in course.curves)
    return with_verdicts(
        course,
        [
            Verdict("the lowest rate of any half second from then on, of that before", lowest),
            Verdict("rates after its return, of those before", after, at_least=0.95),
        ],
    )


def _mean(curve: Curve, begin: float, end: float) -> float:
    found = [bps for at, bps in curve.measured if begin < at <= end]
    return sum(found) / len(found) if found else 0.0


def _capacity(topology: Topology, tail: str, head: str) -> float:
    return next(
        link.capacity_bps for link in topology.links if (link.from_node, link.to_node) == (tail, head)
    )


def _alone(topology: Topology, members: list[str]) -> Scenario:
    """A broadcast that has the network for itself."""
    wish = Collective("tenant", root=members[0], members=members, size_bytes=1 << 20)
    return Scenario(topology, Policy("exact"), collectives=[wish])


def _best(scenario: Scenario) -> float:
    return planning.plan(scenario).collectives[0].rate_bps


def _recovery(course: Course, changed: float, best_bps: float) -> list[Verdict]:
    (curve,) = course.curves
    end = curve.measured[-1][0]
    after = [bps / best_bps for at, bps in curve.measured if at > changed]
    lost = STEP_SECONDS * sum(part < RECOVERED for part in after)
    return [
        Verdict("lowest rate of any half second after it, of the best that is left", min(after)),
        Verdict("time with less than 0.9 of that", lost, "s"),
        Verdict("rate at the end, of that", _mean(curve, end - 2.0, end) / best_bps, at_least=RECOVERED),
    ]


def _sleep_until(at: float) -> None:
    time.sleep(max(0.0, at - time.monotonic()))


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment("fairness", "Tenants come, one a second, and go", fairness),
        Experiment("greedy", "One of two tenants opens many groups", greedy),
        Experiment("fading", "A link falls to a quarter of its capacity", fading),
        Experiment("relay", "One of two relays dies", relay),
        Experiment("controller", "The controller is away for a while", controller),
    )
}
