"""1,000 sessions whose receivers never call, through one relay, beside others that go on.

One process has the sources, another the receivers, a third is the relay. Three tenants have a
session of 50 Mbit/s each through the same relay. Prints how much the relay's resident memory grew over
idle, by its window_bytes, and the rates of the three by what is planned. Exit code 1 if memory
grew by more than 1.10 of window_bytes, or if a rate is under 0.99.

    python benchmarks/stalled.py [--stalled 1000] [--window-mib 64] [--seconds 8] [--json]
"""

import argparse
import json
import shlex
import sys
import time
from dataclasses import asdict, dataclass

import sessions as bench
import square

MIB = 1 << 20
RATE_BPS = 50e6
OTHERS = 3
# Next to nothing, so that what the stalled leave idle does not make up for what the others lose.
STALLED_BPS = 0.001e6
SETTLE_SECONDS = 2.0  # for the stalled to fill what they may
STALLED_BYTES = 4 * MIB
WARM_UP_SECONDS = 1.0
MOST_GROWTH = 1.10
LEAST_SHARE = 0.99
SAMPLE_SECONDS = 0.1


@dataclass
class Outcome:
    stalled: int
    window_mib: float
    idle_mib: float
    grown_mib: float
    growth: float  # of window_bytes
    worst_share: float
    bytes_in_transit_max: int
    is_good: bool = False


def measure(stalled: int, window_bytes: int, seconds: float) -> Outcome:
    topology = square.Topology()
    for name in ("source", "relay", "sink"):
        topology.add_node(name)
    capacity = OTHERS * RATE_BPS + stalled * STALLED_BPS
    topology.add_link("source", "relay", capacity_bps=capacity)
    topology.add_link("relay", "sink", capacity_bps=capacity)
    size = int(capacity / bench.BITS * (seconds + 2 * WARM_UP_SECONDS))
    others = [
        bench.Session(number, f"tenant {number}", "source", "sink", size, RATE_BPS / 1e6)
        for number in range(OTHERS)
    ]
    idle = [
        bench.Session(OTHERS + number, "stalled", "source", "sink", STALLED_BYTES, STALLED_BPS / 1e6)
        for number in range(stalled)
    ]
    hosts = {name: bench.Host(name) for name in ("source", "relay", "sink")}
    try:
        scenario = bench.scenario_of(topology, [*others, *idle], "shortest-path")
        with square.Controller(scenario) as controller:
            for name, host in hosts.items():
                host.call("join", name, controller.address, {"window_bytes": window_bytes})
            controller.wait_for_nodes(list(hosts), bench.ANSWER_SECONDS)
            for name in ("source", "sink"):
                hosts[name].call("enrol", [*others, *idle])
            rates = bench.planned_rates(controller.plan(), others)
            return stall(hosts, others, idle, rates, window_bytes, seconds)
    finally:
        for host in hosts.values():
            host.close()


def stall(
    hosts: dict[str, bench.Host],
    others: list[bench.Session],
    idle: list[bench.Session],
    rates: dict[int, float],
    window_bytes: int,
    seconds: float,
) -> Outcome:
    source, relay, sink = hosts["source"], hosts["relay"], hosts["sink"]
    numbers = [session.number for session in others]
    before = relay.memory_bytes()
    source.call("send", [session.number for session in idle])
    time.sleep(SETTLE_SECONDS)
    sink.call("receive", numbers)
    begin = source.call("send", numbers) + WARM_UP_SECONDS
    end = begin + seconds
    bench.watch(sink, others, rates, end)
    most = before
    while time.monotonic() < end:
        most = max(most, relay.memory_bytes())
        time.sleep(SAMPLE_SECONDS)
    seen = bench.arrivals(sink, others, rates)
    shares = [seen[number].rate_bps(begin, end) / rates[number] for number in numbers]
    statistics = relay.call("statistics", "relay")
    outcome = Outcome(
        stalled=len(idle),
        window_mib=window_bytes / MIB,
        idle_mib=before / MIB,
        grown_mib=(most - before) / MIB,
        growth=(most - before) / window_bytes,
        worst_share=min(shares),
        bytes_in_transit_max=statistics["bytes_in_transit_max"],
    )
    outcome.is_good = outcome.growth <= MOST_GROWTH and outcome.worst_share >= LEAST_SHARE
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description="Sessions whose receivers never call, beside others.")
    parser.add_argument("--stalled", type=int, default=1000, help="sessions (default 1000)")
    parser.add_argument("--window-mib", type=int, default=64, help="window_bytes of each node (default 64)")
    parser.add_argument("--seconds", type=float, default=8.0, help="measured (default 8)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    command, control = shlex.join(["python", *sys.argv]), bench.congestion_control()
    outcome = measure(options.stalled, options.window_mib * MIB, options.seconds)
    if options.json:
        document = {"command": command, "congestion_control": control}
        print(json.dumps(document | {"results": [asdict(outcome)]}))
    else:
        verdict = "" if outcome.is_good else "   MISSED"
        print(f"{command}\ncongestion control {control}")
        print(
            f"{outcome.stalled} stalled sessions: relay grew by {outcome.grown_mib:.1f} MiB over "
            f"{outcome.idle_mib:.1f} MiB idle = {outcome.growth:.3f} of its window of "
            f"{outcome.window_mib:.0f} MiB; {outcome.bytes_in_transit_max / MIB:.1f} MiB in transit at the "
            f"most; the others had {outcome.worst_share:.4f} of their rate{verdict}"
        )
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
