"""1,000 sessions whose blocks stay in one relay, beside others that go on.

One process has the sources, another the relay. What the stalled sessions carry goes on over a link
of 1 Mbit/s only, to receivers that never call; so the relay keeps all that its windows admit. Three
tenants have a session of 50 Mbit/s each through the same relay, to a third process. Prints how much of
the relay's window_bytes was in use, how much its resident memory grew over idle, by window_bytes, and
the rates of the three by what is planned. Exit code 1 if memory grew by more than 1.10 of
window_bytes, if less than 0.85 of it was in use, so that the figure says nothing, or if a rate is
under 0.99.

The least that 1,000 streams are given is two blocks of 8 KiB each, 15.6 MiB, whatever window_bytes is.

    python benchmarks/stalled.py [--stalled 1000] [--window-mib 20] [--seconds 8] [--json]
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

MIB = 1 << 20
RATE_BPS = 50e6
OTHERS = 3
# What the stalled sessions have together behind the relay, and may take in front of it.
DRAIN_BPS = 1e6
FILL_BPS = 100e6
SETTLE_SECONDS = 4.0  # for the stalled to fill what they may
STALLED_BYTES = 4 * MIB
WARM_UP_SECONDS = 1.0
MOST_GROWTH = 1.10
LEAST_FILLED = 0.85
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
    in_transit_mib: float  # the most
    filled: float  # in_transit, of window_bytes
    cost: dict[str, float | bool]
    is_good: bool = False


def measure(stalled: int, window_bytes: int, seconds: float) -> Outcome:
    names = ("source", "relay", "sink", "drain")
    topology = square.Topology()
    for name in names:
        topology.add_node(name)
    topology.add_link("source", "relay", capacity_bps=OTHERS * RATE_BPS + FILL_BPS)
    topology.add_link("relay", "sink", capacity_bps=OTHERS * RATE_BPS)
    topology.add_link("relay", "drain", capacity_bps=DRAIN_BPS)
    size = int(RATE_BPS / bench.BITS * (seconds + 2 * WARM_UP_SECONDS))
    others = [
        bench.Session(number, f"tenant {number}", "source", "sink", size, RATE_BPS / 1e6)
        for number in range(OTHERS)
    ]
    weight = DRAIN_BPS / stalled / 1e6
    idle = [
        bench.Session(OTHERS + number, "stalled", "source", "drain", STALLED_BYTES, weight)
        for number in range(stalled)
    ]
    hosts = {name: bench.Host(name) for name in names}
    try:
        scenario = bench.scenario_of(topology, [*others, *idle], "shortest-path")
        with square.Controller(scenario) as controller:
            for name, host in hosts.items():
                host.call("join", name, controller.address, {"window_bytes": window_bytes})
            controller.wait_for_nodes(list(hosts), bench.ANSWER_SECONDS)
            for name in ("source", "sink", "drain"):
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
    watch = bench.Watch(hosts, "source", "sink", numbers)
    watch.begin(end)
    most = before
    while time.monotonic() < end:
        most = max(most, relay.memory_bytes())
        time.sleep(SAMPLE_SECONDS)
    seen = watch.arrivals()
    shares = [seen[number].rate_bps(begin, end) / rates[number] for number in numbers]
    statistics = relay.call("statistics", "relay")
    outcome = Outcome(
        stalled=len(idle),
        window_mib=window_bytes / MIB,
        idle_mib=before / MIB,
        grown_mib=(most - before) / MIB,
        growth=(most - before) / window_bytes,
        worst_share=min(shares),
        in_transit_mib=statistics["bytes_in_transit_max"] / MIB,
        filled=statistics["bytes_in_transit_max"] / window_bytes,
        cost=watch.cost.figures(),
    )
    outcome.is_good = (
        outcome.growth <= MOST_GROWTH
        and outcome.filled >= LEAST_FILLED
        and outcome.worst_share >= LEAST_SHARE
    )
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description="Sessions that fill a relay's window, beside others.")
    parser.add_argument("--stalled", type=int, default=1000, help="sessions (default 1000)")
    parser.add_argument("--window-mib", type=int, default=20, help="window_bytes of each node (default 20)")
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
            f"{outcome.stalled} stalled sessions: relay had {outcome.in_transit_mib:.1f} MiB in transit "
            f"at the most = {outcome.filled:.3f} of its window of {outcome.window_mib:.0f} MiB, and grew by "
            f"{outcome.grown_mib:.1f} MiB over {outcome.idle_mib:.1f} MiB idle = {outcome.growth:.3f} of the "
            f"window; the others had {outcome.worst_share:.4f} of their rate{verdict}; "
            f"{machine.describe(outcome.cost)}"
        )
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
