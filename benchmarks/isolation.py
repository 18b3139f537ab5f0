"""One tenant against 64 sessions of another on a link that the kernel shapes. Needs root.

Two network namespaces of its own, a veth pair of MTU 9000 between them, TBF at 200 Mbit/s (burst
5 ms, latency 50 ms) and TCP cubic on both sides. Tenant A has one broadcast, planned at 90 Mbit/s;
tenant B has 64 of 110 Mbit/s in all and pushes ten times that. Cases:

    shared  both tenants live on one node and use one overlay link
    cheat   B has a node of its own, which ignores its pace; the receiving node polices it

Prints A's rate while B pushes, by 90, and its rate from 1 s to 2 s after B stopped, by what the link
carries. Exit code 1 if the first is under 0.99, or the second under 0.95 (shared only: in the other
case A's own link has only a part of what the plan left free).

    python benchmarks/isolation.py [--seconds 8] [--cases shared cheat] [--json]
"""

import argparse
import json
import shlex
import sys
import time
from dataclasses import asdict, dataclass

import machine
import sessions as bench
import square
from square.run import namespaces, wiring

LINK_BPS = 200e6
A_BPS = 90e6
B_BPS = 110e6
B_SESSIONS = 64
B_FACTOR = 10
WARM_UP_SECONDS = 1.0
AFTER_SECONDS = 2.0
LEAST_SHARE = 0.99
LEAST_AFTER = 0.95
LEFT, RIGHT = "10.7.0.1", "10.7.0.2"


@dataclass
class Outcome:
    case: str
    planned_mbps: float
    contended_mbps: float
    contended_share: float
    after_mbps: float
    after_share: float
    cost: dict[str, float | bool]
    is_good: bool = False


def make_network() -> namespaces.Namespace:
    """Moves this process into a network of its own; returns the one at the other end of the link."""
    namespaces.check_possible()
    namespaces.isolate_process()
    right = namespaces.Namespace()
    mtu, control = wiring.MTU_BYTES, namespaces.CONGESTION_CONTROL
    link = f"link add name wire mtu {mtu} type veth peer name wire mtu {mtu} netns {right.file}"
    for own, far, lines in ((LEFT, RIGHT, [link]), (RIGHT, LEFT, [])):
        lines += [
            "link set lo up",
            f"address add {own}/32 dev lo",
            "link set wire up",
            f"route add {far}/32 dev wire src {own} congctl {control}",
        ]
        shaper = [f"qdisc add dev wire root {wiring.shaper(LINK_BPS)}"]
        if own == LEFT:
            namespaces.run_batch("ip", lines)
            namespaces.run_batch("tc", shaper)
        else:
            right.run(lambda lines=lines: namespaces.run_batch("ip", lines))  # type: ignore[misc]
            right.run(lambda shaper=shaper: namespaces.run_batch("tc", shaper))  # type: ignore[misc]
    return right


def topology_of(case: str) -> square.Topology:
    topology = square.Topology()
    topology.add_node("a")
    if case == "shared":
        topology.add_node("sink")
    else:
        topology.add_node("b")
        topology.add_node("sink", ingress_bps=LINK_BPS)
        topology.add_link("b", "sink", capacity_bps=LINK_BPS)
    topology.add_link("a", "sink", capacity_bps=LINK_BPS)
    return topology


def measure(case: str, seconds: float, right: namespaces.Namespace) -> Outcome:
    total = seconds + WARM_UP_SECONDS + AFTER_SECONDS
    own = bench.Session(0, "A", "a", "sink", int(LINK_BPS / bench.BITS * total), A_BPS / 1e6)
    each = int(B_FACTOR * B_BPS / bench.BITS * seconds / B_SESSIONS)
    greedy_node = "a" if case == "shared" else "b"
    greedy = [
        bench.Session(1 + number, "B", greedy_node, "sink", each, B_BPS / 1e6 / B_SESSIONS)
        for number in range(B_SESSIONS)
    ]
    hosts = {"a": bench.Host("a"), "sink": right.run(lambda: bench.Host("sink"))}
    if case != "shared":
        hosts["b"] = bench.Host("b")
    scenario = bench.scenario_of(topology_of(case), [own, *greedy], "square")
    try:
        with square.Controller(scenario, bind_address=f"{LEFT}:0", insecure=True) as controller:
            for name, host in hosts.items():
                address = RIGHT if name == "sink" else LEFT
                options = {"bind_address": f"{address}:0", "insecure": True, "paced": name != "b"}
                host.call("join", name, controller.address, options)
            controller.wait_for_nodes(list(hosts), bench.ANSWER_SECONDS)
            for host in hosts.values():
                host.call("enrol", [own, *greedy])
            rates = bench.planned_rates(controller.plan(), [own])
            return contend(case, seconds, own, greedy, hosts, rates)
    finally:
        for host in hosts.values():
            host.close()


def contend(
    case: str,
    seconds: float,
    own: bench.Session,
    greedy: list[bench.Session],
    hosts: dict[str, bench.Host],
    rates: dict[int, float],
) -> Outcome:
    numbers = [session.number for session in greedy]
    sink, greedy_host = hosts["sink"], hosts.get("b", hosts["a"])
    sink.call("receive", [own.number, *numbers])
    greedy_host.call("send", numbers)
    begin = hosts["a"].call("send", [own.number]) + WARM_UP_SECONDS
    stop = begin + seconds
    watch = bench.Watch(hosts, "a", "sink", [own.number])
    watch.begin(stop + AFTER_SECONDS)
    time.sleep(max(0.0, stop - time.monotonic()))
    greedy_host.call("cancel", numbers)
    arrivals = watch.arrivals()[own.number]
    contended = arrivals.rate_bps(begin, stop)
    after = arrivals.rate_bps(stop + 1.0, stop + AFTER_SECONDS)
    planned = rates[own.number]
    outcome = Outcome(
        case,
        planned / 1e6,
        contended / 1e6,
        contended / planned,
        after / 1e6,
        after / LINK_BPS,
        watch.cost.figures(),
    )
    outcome.is_good = outcome.contended_share >= LEAST_SHARE and (
        case != "shared" or outcome.after_share >= LEAST_AFTER
    )
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description="One tenant against 64 sessions of another.")
    parser.add_argument("--seconds", type=float, default=8.0, help="of contention measured (default 8)")
    parser.add_argument("--cases", nargs="*", choices=("shared", "cheat"), default=["shared", "cheat"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    right = make_network()
    command, control = shlex.join(["python", *sys.argv]), namespaces.CONGESTION_CONTROL
    if not options.json:
        print(
            f"{command}\ncongestion control {control}, TBF {LINK_BPS / 1e6:.0f} Mbit/s, MTU 9000", flush=True
        )
    outcomes = []
    for case in options.cases:
        outcomes.append(outcome := measure(case, options.seconds, right))
        if not options.json:
            verdict = "" if outcome.is_good else "   MISSED"
            print(
                f"{outcome.case:7} A planned {outcome.planned_mbps:.1f}: beside B "
                f"{outcome.contended_mbps:.2f} Mbit/s = {outcome.contended_share:.4f}; after B "
                f"{outcome.after_mbps:.2f} Mbit/s = {outcome.after_share:.4f} of the link{verdict}; "
                f"{machine.describe(outcome.cost)}",
                flush=True,
            )
    if options.json:
        document = {"command": command, "congestion_control": control}
        print(json.dumps(document | {"results": [asdict(outcome) for outcome in outcomes]}))
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
