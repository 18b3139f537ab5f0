"""Trains the same GPT over four sites with Gloo, then with square: same losses, other time per step.

    sudo .venv/bin/python examples/gpt_sites/compare.py
    unshare --user --map-root-user .venv/bin/python examples/gpt_sites/compare.py --steps 20
    sudo .venv/bin/python examples/gpt_sites/compare.py --sharded

Every site of sites.toml is a network namespace, every link is shaped by the kernel. train.py runs at each
site, one rank each. Needs Linux, iproute2, torch and, for the plot, matplotlib.
"""

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import square
from square import viz
from square.errors import FailedPreconditionError, InvalidArgumentError, SquareError
from square.run.ranks import STORE_PORT, Ranks
from square.run.sites import Sites

FOLDER = Path(__file__).resolve().parent
BACKENDS = ("gloo", "square")
HEADS = 4  # of the model
FLOAT_BITS = 32
# Of a step, at the most, and to begin and end with.
STEP_SECONDS = 10.0
START_SECONDS = 120.0
INTERRUPTED = 130
# Sums of float32 in another order, and what training makes of that in some hundred steps.
MAX_RELATIVE_DIFFERENCE = 1e-3


def run(sites: Sites, scenario: square.Scenario, backend: str, options: argparse.Namespace) -> dict[str, Any]:
    """What the first rank reports."""
    with tempfile.TemporaryDirectory() as folder, controller_for(backend, sites, scenario) as controller:
        report = Path(folder) / "report.json"
        script = [str(FOLDER / "train.py"), "--backend", backend, "--report", str(report)]
        for name in ("steps", "every", "seed", "layers", "width"):
            script += [f"--{name}", str(getattr(options, name))]
        script += ["--sharded"] if options.sharded else []
        stdout = sys.stderr if options.json else None
        # A port of its own: the kernel keeps the last job's for a minute.
        port = STORE_PORT + BACKENDS.index(backend)
        with Ranks(sites, sites.names, script, controller, name=backend, port=port, stdout=stdout) as ranks:
            ranks.wait(START_SECONDS + STEP_SECONDS * options.steps)
        return dict(json.loads(report.read_text(encoding="utf-8")))


@contextmanager
def controller_for(
    backend: str, sites: Sites, scenario: square.Scenario
) -> Iterator[square.Controller | None]:
    """As `square controller sites.toml` would be at one of the sites; Gloo knows nothing of the network."""
    if backend != "square":
        yield None
        return
    with sites.controller(scenario) as controller:
        yield controller


def traffic_seconds(scenario: square.Scenario, report: dict[str, Any], sharded: bool) -> float:
    """What the collectives of a step take, one after the other, where each has its bound: the most that any
    plan can give it."""
    gradients = FLOAT_BITS * report["parameters"]
    bits = {"all_reduce": gradients}
    if sharded:
        # Before the backward pass the blocks are gathered once more.
        again = FLOAT_BITS * report["parameters_in_blocks"]
        bits = {"all_gather": gradients + again, "reduce_scatter": gradients}
    wishes = [square.Collective("tenant", op=op, size_bytes=1 << 20, group="job") for op in bits]
    plan = square.plan(square.Scenario(scenario.topology, scenario.policy, collectives=wishes))
    return sum(bits[one.op] / one.bound_bps for one in plan.collectives)


def compare(
    scenario: square.Scenario, reports: dict[str, dict[str, Any]], options: argparse.Namespace
) -> dict[str, Any]:
    gloo, ours = (reports[backend] for backend in BACKENDS)
    pairs = zip(gloo["losses"], ours["losses"], strict=True)
    differences = [abs(theirs - own) / theirs for (_, theirs), (_, own) in pairs]
    medians = {backend: statistics.median(report["seconds"]) for backend, report in reports.items()}
    calculation = statistics.median(report["calculation_seconds"] for report in reports.values())
    traffic = traffic_seconds(scenario, ours, options.sharded)
    return {
        "parameters": gloo["parameters"],
        "calculation_seconds": calculation,
        "traffic_seconds": traffic,
        "of_both": medians["square"] / (calculation + traffic),
        "losses": {backend: report["losses"] for backend, report in reports.items()},
        "largest_relative_difference": max(differences),
        "seconds": {backend: report["seconds"] for backend, report in reports.items()},
        "median_seconds": medians,
        "times_as_fast": medians["gloo"] / medians["square"],
    }


def print_tables(figures: dict[str, Any]) -> None:
    print(f"\n{'step':>6}{'loss, gloo':>14}{'loss, square':>14}")
    for (step, theirs), (_, ours) in zip(*(figures["losses"][name] for name in BACKENDS), strict=True):
        print(f"{step:>6}{theirs:>14.6f}{ours:>14.6f}")
    print(f"largest difference: {figures['largest_relative_difference']:.1e} of the loss\n")
    for backend in BACKENDS:
        print(f"{backend:>7}: {figures['median_seconds'][backend]:.3f} s per step, median")
    print(f"at least {figures['calculation_seconds']:.3f} s of calculation")
    print(f"    and {figures['traffic_seconds']:.3f} s of traffic on links that are full")
    print(f"square takes {figures['of_both']:.2f} times both")
    print(f"{figures['parameters']} parameters; square is {figures['times_as_fast']:.1f} times as fast")


def plot(figures: dict[str, Any], file: Path) -> None:
    """Losses on the left, seconds of each step on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    losses, seconds = figure.subplots(1, 2)
    # The curves lie on one another: a wide one below, a thin one above.
    for backend, colour, width in zip(BACKENDS, ("tab:orange", "tab:blue"), (5, 1.5), strict=True):
        steps, means = zip(*figures["losses"][backend], strict=True)
        losses.plot(steps, means, color=colour, linewidth=width, label=backend)
        taken = figures["seconds"][backend]
        label = f"{backend}, median {figures['median_seconds'][backend]:.2f} s"
        seconds.plot(range(1, len(taken) + 1), taken, color=colour, linewidth=1.5, label=label)
    difference = figures["largest_relative_difference"]
    losses.set(title=f"losses differ by at most {difference:.0e}", xlabel="step", ylabel="loss")
    seconds.set(
        title=f"{figures['times_as_fast']:.1f} times as fast", xlabel="step", ylabel="seconds per step"
    )
    seconds.set_ylim(bottom=0)
    for axes in (losses, seconds):
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend()
        axes.grid(alpha=0.3)
    figure.savefig(file)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0], epilog="Needs root, or `unshare --user --map-root-user`."
    )
    made.add_argument("--steps", type=int, default=40, metavar="N", help="of training (default 40)")
    made.add_argument("--every", type=int, default=5, metavar="N", help="steps between losses (default 5)")
    made.add_argument("--seed", type=int, default=1, metavar="N", help="of model and batches (default 1)")
    made.add_argument(
        "--sharded", action="store_true", help="FSDP2: all-gathers and reduce-scatters instead of all-reduces"
    )
    made.add_argument("--layers", type=int, default=6, metavar="N", help="of the GPT (default 6)")
    made.add_argument("--width", type=int, default=128, metavar="N", help="of the GPT (default 128)")
    made.add_argument(
        "--plot",
        type=Path,
        default=Path("gpt_sites.png"),
        metavar="FILE",
        help=".png, .svg or .pdf (default gpt_sites.png)",
    )
    made.add_argument("--no-plot", action="store_true", help="tables alone; needs no matplotlib")
    made.add_argument("--json", action="store_true", help="the figures as JSON and nothing else")
    return made


def check(options: argparse.Namespace) -> None:
    """Says before anything starts what is missing."""
    if not 1 <= options.every <= options.steps:
        raise InvalidArgumentError("--steps must be at least --every, and that at least 1")
    if options.layers < 1 or options.width < HEADS or options.width % HEADS != 0:
        raise InvalidArgumentError(f"--layers must be at least 1, --width a multiple of {HEADS}, the heads")
    if find_spec("torch") is None:
        raise FailedPreconditionError('training needs torch: pip install "square[torch]"')
    if not options.no_plot:
        viz.check_plot(options.plot)


def main() -> int:
    options = parser().parse_args()
    try:
        check(options)
        scenario = square.Scenario.read(FOLDER / "sites.toml")
        with Sites(scenario.topology) as sites:
            reports = {backend: run(sites, scenario, backend, options) for backend in BACKENDS}
    except SquareError as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    figures = compare(scenario, reports, options)
    if options.json:
        print(json.dumps({"command": shlex.join(sys.orig_argv), **figures}, indent=2))
    else:
        print_tables(figures)
    if not options.no_plot:
        try:
            plot(figures, options.plot)
        except (ImportError, OSError) as error:
            print(f"compare.py: no plot: {error}", file=sys.stderr)
            return 1
        if not options.json:
            print(f"plot: {options.plot}")
    if figures["largest_relative_difference"] > MAX_RELATIVE_DIFFERENCE:
        print(f"compare.py: the losses differ by more than {MAX_RELATIVE_DIFFERENCE:g}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
