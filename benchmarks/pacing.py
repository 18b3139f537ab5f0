"""How exactly links are paced: two nodes on loopback, blocks timed where they are received.

One session at 10 Mbit/s, 100 Mbit/s and 1 Gbit/s, then 100 sessions of 10 Mbit/s on one link.
Prints, for 10 s after a second of warm-up, the error of each rate (of several sessions the worst, and
the mean) and the most that any window of
1 s had beyond the rate and one block. Exit code 1 if an error is over 0.1% (0.3% with 100
sessions) or a window over 1.05 of the rate and one block.

    python benchmarks/pacing.py [--seconds 10] [--rates 10 100 1000] [--sessions 100] [--json]
"""

import argparse
import json
import shlex
import sys
from dataclasses import asdict, dataclass, field

import machine
import sessions as bench
import square

WARM_UP_SECONDS = 1.0
TAIL_SECONDS = 0.2
SPARE = 1.25
# The sessions start one after the other, and who is alone has the whole link for so long.
HEAD_START_SECONDS = 0.25
MOST_ERROR = 0.001
MOST_ERROR_OF_MANY = 0.003
MOST_WINDOW = 1.05
MANY_RATE_BPS = 10e6


@dataclass
class Measured:
    rate_mbps: float
    sessions: int
    worst_error: float  # relative, with its sign
    mean_error: float
    worst_window: float  # of 1 s, one block taken off, in parts of the rate
    cost: dict[str, float | bool] = field(default_factory=dict)
    is_good: bool = False


def measure(rate_bps: float, count: int, seconds: float) -> Measured:
    """The worst of ``count`` sessions that share a link of ``count`` times the rate."""
    topology = square.Topology()
    for name in ("source", "sink"):
        topology.add_node(name)
    topology.add_link("source", "sink", capacity_bps=count * rate_bps)
    expected = int(rate_bps / bench.BITS * (seconds + WARM_UP_SECONDS + TAIL_SECONDS) * SPARE)
    size = expected + int((count - 1) * rate_bps / bench.BITS * HEAD_START_SECONDS)
    sessions = [bench.Session(number, f"tenant {number}", "source", "sink", size) for number in range(count)]
    numbers = [session.number for session in sessions]
    source, sink = bench.Host("source"), bench.Host("sink")
    try:
        with square.Controller(bench.scenario_of(topology, sessions, "square")) as controller:
            for host, name in ((source, "source"), (sink, "sink")):
                host.call("join", name, controller.address, {})
            controller.wait_for_nodes(["source", "sink"], bench.ANSWER_SECONDS)
            source.call("enrol", sessions)
            sink.call("enrol", sessions)
            rates = bench.planned_rates(controller.plan(), sessions)
            sink.call("receive", numbers, expected)
            begin = source.call("send", numbers) + WARM_UP_SECONDS
            watch = bench.Watch({"source": source, "sink": sink}, "source", "sink", numbers)
            watch.begin(begin + seconds + TAIL_SECONDS)
            seen = watch.arrivals()
            result = Measured(rate_bps / 1e6, count, 0.0, 0.0, 0.0)
            for number, arrivals in seen.items():
                if len(arrivals.times) * arrivals.block_bytes >= size:
                    raise RuntimeError(
                        f"session {number} ended before the measurement: raise HEAD_START_SECONDS"
                    )
                error = arrivals.rate_bps(begin, begin + seconds) / rates[number] - 1
                result.mean_error += error / count
                if abs(error) >= abs(result.worst_error):
                    result.worst_error = error
                window = arrivals.most_bits(begin, begin + seconds) - arrivals.block_bits
                result.worst_window = max(result.worst_window, window / rates[number])
            result.cost = watch.cost.figures()
    finally:
        source.close()
        sink.close()
    allowed = MOST_ERROR if count == 1 else MOST_ERROR_OF_MANY
    result.is_good = abs(result.worst_error) <= allowed and result.worst_window <= MOST_WINDOW
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description="How exactly links are paced.")
    parser.add_argument("--seconds", type=float, default=10.0, help="measured for each rate (default 10)")
    parser.add_argument("--rates", type=float, nargs="*", default=[10, 100, 1000], metavar="MBPS")
    parser.add_argument("--sessions", type=int, default=100, help="of 10 Mbit/s on one link; 0: none")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    command, control = shlex.join(["python", *sys.argv]), bench.congestion_control()
    if not options.json:
        print(f"{command}\ncongestion control {control}", flush=True)
    cases = [(rate * 1e6, 1) for rate in options.rates]
    if options.sessions:
        cases.append((MANY_RATE_BPS, options.sessions))
    results = []
    for rate_bps, count in cases:
        results.append(result := measure(rate_bps, count, options.seconds))
        if not options.json:
            print(
                f"{count:4} x {result.rate_mbps:6.0f} Mbit/s: error {result.worst_error * 100:+.4f}% "
                f"(mean {result.mean_error * 100:+.4f}%), "
                f"1 s less a block {result.worst_window:.4f} of the rate"
                f"{'' if result.is_good else '   MISSED'}; {machine.describe(result.cost)}",
                flush=True,
            )
    if options.json:
        document = {"command": command, "congestion_control": control, "seconds": options.seconds}
        print(json.dumps(document | {"results": [asdict(result) for result in results]}))
    return 0 if all(result.is_good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
