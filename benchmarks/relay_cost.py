"""What forwarding costs a relay: CPU seconds of its process per GB.

Source, relay and receiver are three processes on loopback, unpaced; the only way from the source
to the receiver is through the relay. Exit code 1 above 0.35 CPU seconds per GB.

    python benchmarks/relay_cost.py [--congestion cubic] [--mib 64] [--json]
"""

import argparse
import sys

import machine
import square
from loopback import (
    GB,
    MIB,
    Process,
    Relay,
    add_common_options,
    contest,
    enter_namespace,
    heading,
    show,
)

MOST_CPU_PER_GB = 0.35
MEMBERS = ["source", "receiver"]


def controller(size_bytes: int) -> square.Controller:
    topology = square.Topology()
    for name in ("source", "relay", "receiver"):
        topology.add_node(name)
    topology.add_link("source", "relay")
    topology.add_link("relay", "receiver")
    tensor = square.Collective("benchmark", root="source", members=MEMBERS, size_bytes=size_bytes)
    return square.Controller(square.Scenario(topology, collectives=[tensor]))


def measure(options: argparse.Namespace) -> dict[str, float | bool]:
    size_bytes = options.mib * MIB
    tuned = not options.library
    with controller(size_bytes) as control, contest(2, size_bytes, tuned=tuned) as ends:
        relay = Process(tuned, Relay, "relay", control.address)
        ends.relays.append(relay)
        relay.end()
        ends.add("square", control.address, MEMBERS, size_bytes)
        ends.run(options.warm_up, options.turns, options.rounds)
        series = ends.results["square"]
    return series.cost(hops=2).figures() | {
        "gb_per_second": series.rate(),
        "relay_cpu_seconds_per_gb": series.cpu_seconds[-1] / (series.bytes / GB),
        "all_cpu_seconds_per_gb": series.cpu_per_gb(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="What forwarding costs a relay.")
    parser.add_argument("--library", action="store_true", help="leave malloc as it is")
    add_common_options(parser)
    options = parser.parse_args()
    if (code := enter_namespace(options)) is not None:
        return code
    found = measure(options)
    cost = found["relay_cpu_seconds_per_gb"]
    line = (
        f"relay: {cost:.2f} CPU s/GB forwarded (at most {MOST_CPU_PER_GB}), at "
        f"{found['gb_per_second']:.2f} GB/s; "
        f"all three processes {found['all_cpu_seconds_per_gb']:.2f}; {machine.describe(found)}"
    )
    show(heading("relay cost") | found, [line], as_json=options.json)
    return 0 if cost <= MOST_CPU_PER_GB else 1


if __name__ == "__main__":
    sys.exit(main())
