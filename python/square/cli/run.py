"""`square run`: make it happen, on this machine or on others."""

import argparse
import sys
from pathlib import Path

from square._core import CollectiveView, Scenario
from square.cli import arguments, bundled, documents, text
from square.errors import InvalidArgumentError
from square.run import operations, payload, sums
from square.run.job import RunOptions, run_scenario
from square.run.machines import MachinesFile
from square.run.network import MODES, NETNS, PACE
from square.run.outcome import RunOutcome
from square.run.progress import display_for


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "run",
        "run a scenario for real: one process per node, paced links",
        "Starts a controller and one process for every node of the overlay on this machine, runs all\n"
        "broadcasts of the scenario at once, and compares every destination's bytes with the source's.\n"
        "Links are paced to their capacity by the nodes; no root is needed. With --emulate netns every\n"
        "node has a network namespace of its own and the kernel shapes the links between them; with\n"
        "--machines it runs on a machine of its own, over ssh.",
        "  square run scenario.toml --compare square,shortest-path,mcf --input video.mp4\n"
        "  square run butterfly --compare exact,exact:trees\n"
        "  sudo square run scenario.toml --emulate netns\n"
        "  square run scenario.toml --machines machines.toml",
    )
    parser.add_argument("scenario", type=Path, metavar="SCENARIO", help=bundled.HELP)
    arguments.add_units(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--policy", metavar="NAME", help="instead of the scenario's policy")
    which.add_argument(
        "--compare",
        type=arguments.policy_list,
        metavar="A,B,...",
        help="run the same collectives under each of these policies; the first is compared with the others. "
        "exact:trees is exact without codes",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="what every root sends; without it, random bytes of the plan's size",
    )
    arguments.add_scale_bytes(what)
    add_execution(parser)
    parser.set_defaults(execute=execute)


def add_execution(parser: argparse.ArgumentParser) -> None:
    """Options of everything that runs a scenario."""
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the random bytes (default 1)")
    parser.add_argument(
        "--timeout",
        type=arguments.positive_float,
        metavar="SECONDS",
        help="end with an error after this long (default: ten times the plan and a minute)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--emulate",
        choices=MODES,
        default=PACE,
        help="pace: loopback, paced by the nodes; netns: network namespaces joined by links that the "
        "kernel shapes, needs root (default pace)",
    )
    arguments.add_machines(where)
    parser.add_argument(
        "--unpaced", action="store_true", help="with netns: nodes do not pace, the kernel's shaper is alone"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    arguments.add_output(parser, "the measurements")


def execute(options: argparse.Namespace) -> int:
    documents.check_writable(options.output)
    scenario = bundled.read(options.scenario, options.units)
    if options.input is not None:
        size_bytes = payload.size_of(options.input)
        scenario = with_sizes(scenario, [size_bytes] * len(scenario.collectives))
    elif options.scale_bytes is not None:
        scenario = scaled(scenario, options.scale_bytes)
    policies = options.compare or (options.policy or scenario.policy.name,)
    outcome = run(scenario, policies, options, input_file=options.input)
    show(outcome, options)
    return 0


def run(
    scenario: Scenario,
    policies: tuple[str, ...],
    options: argparse.Namespace,
    input_file: Path | None = None,
) -> RunOutcome:
    if options.unpaced and options.emulate != NETNS:
        raise InvalidArgumentError("--unpaced needs --emulate netns: on loopback only pacing limits a link")
    settings = RunOptions(
        policies,
        input_file,
        options.seed,
        options.timeout,
        emulate=options.emulate,
        paced=not options.unpaced,
        machines=MachinesFile.read(options.machines) if options.machines is not None else None,
    )
    outcome = run_scenario(scenario, settings, display_for(sys.stderr, quiet=options.quiet))
    if options.output is not None:
        documents.write_file(options.output, documents.to_text(outcome.to_json()))
    return outcome


def show(outcome: RunOutcome, options: argparse.Namespace) -> None:
    if options.json:
        sys.stdout.write(documents.to_text(outcome.to_json()) + "\n")
        return
    from square.cli.report import print_run

    print_run(outcome, text.console_for())


def scaled(scenario: Scenario, factor: float) -> Scenario:
    """A copy whose collectives have so many times the bytes; of sums in whole elements."""
    return with_sizes(scenario, [_scaled(collective, factor) for collective in scenario.collectives])


def _scaled(collective: CollectiveView, factor: float) -> int:
    size_bytes = round(collective.size_bytes * factor)
    return size_bytes - size_bytes % sums.ELEMENT_BYTES if collective.op in operations.SUMS else size_bytes


def with_sizes(scenario: Scenario, sizes: list[int]) -> Scenario:
    """A copy whose collectives have these sizes."""
    changed = scenario.copy()
    for collective, size_bytes in zip(scenario.collectives, sizes, strict=True):
        changed.set_size(collective.id, size_bytes)
    return changed
