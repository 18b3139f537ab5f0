"""Broadcast of a tensor on loopback, against Gloo's.

To one and to three receivers, every rank a process, unpaced. Gloo comes with torch, which the
project does not depend on: it takes part where `import torch` works (pip install torch). Exit code 1
if Square's rate is under 0.80 of Gloo's.

    python benchmarks/broadcast.py [--receivers 3] [--congestion cubic] [--policy exact] [--json]
"""

import argparse
import sys
import tempfile
from pathlib import Path

import machine
import square
from loopback import MIB, add_common_options, contest, enter_namespace, gloo_version, heading, show

LEAST_OF_GLOO = 0.80


def controller(names: list[str], size_bytes: int, policy: str) -> square.Controller:
    tensor = square.Collective("benchmark", root=names[0], members=names, size_bytes=size_bytes)
    mesh = square.Topology.full_mesh(names)
    return square.Controller(square.Scenario(mesh, policy=square.Policy(policy), collectives=[tensor]))


def measure(receivers: int, options: argparse.Namespace) -> dict[str, float | bool]:
    size_bytes = options.mib * MIB
    names = ["root", *(f"receiver-{number}" for number in range(1, receivers + 1))]
    tuned = not options.library
    with (
        tempfile.TemporaryDirectory() as directory,
        controller(names, size_bytes, options.policy) as control,
        contest(len(names), size_bytes, tuned=tuned) as ranks,
    ):
        if gloo_version() is not None:
            ranks.add("gloo", str(Path(directory) / "store"))
        ranks.add("square", control.address, names, size_bytes)
        ranks.run(options.warm_up, options.turns, options.rounds)
        found = {
            f"{peer}_{what}": figure
            for peer, series in ranks.results.items()
            for what, figure in (
                ("gb_per_second", series.rate()),
                ("cpu_seconds_per_gb", series.cpu_per_gb() / receivers),
            )
        }
        found |= ranks.results["square"].cost(receivers).figures()
    if "gloo_gb_per_second" in found:
        found["rate_ratio"] = found["square_gb_per_second"] / found["gloo_gb_per_second"]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Broadcast on loopback, against Gloo's.")
    parser.add_argument("--receivers", type=int, help="so many only (default: one, then three)")
    parser.add_argument("--policy", default="square", help="of the plan (default square)")
    parser.add_argument("--library", action="store_true", help="leave malloc as it is in every rank")
    add_common_options(parser)
    options = parser.parse_args()
    if (code := enter_namespace(options)) is not None:
        return code
    figures = heading("broadcast")
    figures["torch"] = gloo_version()
    lines = [] if gloo_version() else ["no Gloo to compare with: `import torch` fails here"]
    good = True
    for receivers in [options.receivers] if options.receivers else [1, 3]:
        found = measure(receivers, options)
        figures[f"to_{receivers}"] = found
        line = (
            f"to {receivers}: Square {found['square_gb_per_second']:.2f} GB/s, "
            f"CPU s/GB delivered {found['square_cpu_seconds_per_gb']:.2f}; {machine.describe(found)}"
        )
        if "rate_ratio" in found:
            good &= found["rate_ratio"] >= LEAST_OF_GLOO
            line += (
                f"; Gloo {found['gloo_gb_per_second']:.2f} GB/s, {found['gloo_cpu_seconds_per_gb']:.2f}: "
                f"{found['rate_ratio']:.2f} of its rate (at least {LEAST_OF_GLOO:.2f})"
            )
        lines.append(line)
    show(figures, lines, as_json=options.json)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
