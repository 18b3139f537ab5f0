"""A tensor into the receiver's tensor over one link, against plain TCP sockets.

Two processes, unpaced. As a program may run (malloc keeps what is freed, as `square node` has it)
and as a plain library. Exit code 1 if the rate is under 0.70 of TCP's (library: 0.50) or the CPU
time per GB over 2.0 times TCP's.

    python benchmarks/point_to_point.py [--congestion cubic] [--mib 64] [--json]
"""

import argparse
import sys

import machine
import square
from loopback import MIB, Contest, add_common_options, contest, enter_namespace, heading, show

LEAST_OF_TCP = {"program": 0.70, "library": 0.50}
MOST_CPU = 2.0
NAMES = ["sender", "receiver"]


def controller(size_bytes: int) -> square.Controller:
    topology = square.Topology()
    for name in NAMES:
        topology.add_node(name)
    topology.add_link("sender", "receiver")
    tensor = square.Collective("benchmark", root="sender", members=NAMES, size_bytes=size_bytes)
    return square.Controller(square.Scenario(topology, collectives=[tensor]))


def measure(mode: str, options: argparse.Namespace) -> dict[str, float | bool]:
    size_bytes = options.mib * MIB
    with controller(size_bytes) as control, contest(2, size_bytes, tuned=mode == "program") as pair:
        pair.add("tcp")
        pair.add("square", control.address, NAMES, size_bytes)
        pair.run(options.warm_up, options.turns, options.rounds)
        return figures_of(pair)


def figures_of(pair: Contest) -> dict[str, float | bool]:
    tcp, ours = pair.results["tcp"], pair.results["square"]
    return ours.cost(hops=1).figures() | {
        "tcp_gb_per_second": tcp.rate(),
        "square_gb_per_second": ours.rate(),
        "rate_ratio": ours.rate() / tcp.rate(),
        "tcp_cpu_seconds_per_gb": tcp.cpu_per_gb(),
        "square_cpu_seconds_per_gb": ours.cpu_per_gb(),
        "cpu_ratio": ours.cpu_per_gb() / tcp.cpu_per_gb(),
        "square_sender_cpu_seconds_per_gb": ours.cpu_seconds[0] / (ours.bytes / 1e9),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="One tensor over one link, against TCP.")
    parser.add_argument("--only", choices=sorted(LEAST_OF_TCP), help="one of the two ways to run")
    add_common_options(parser)
    options = parser.parse_args()
    if (code := enter_namespace(options)) is not None:
        return code
    figures = heading("point to point")
    lines = []
    good = True
    for mode in [options.only] if options.only else ["program", "library"]:
        found = measure(mode, options)
        figures[mode] = found
        good &= found["rate_ratio"] >= LEAST_OF_TCP[mode] and found["cpu_ratio"] <= MOST_CPU
        lines.append(
            f"{mode}: Square {found['square_gb_per_second']:.2f} GB/s, TCP {found['tcp_gb_per_second']:.2f}: "
            f"{found['rate_ratio']:.2f} (at least {LEAST_OF_TCP[mode]:.2f}); CPU s/GB Square "
            f"{found['square_cpu_seconds_per_gb']:.2f}, of it the sender "
            f"{found['square_sender_cpu_seconds_per_gb']:.2f}, TCP {found['tcp_cpu_seconds_per_gb']:.2f}: "
            f"{found['cpu_ratio']:.2f} (at most {MOST_CPU}); {machine.describe(found)}"
        )
    show(figures, lines, as_json=options.json)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
