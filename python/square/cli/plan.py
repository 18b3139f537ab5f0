"""`square plan`: what would happen."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from square import viz
from square._core import Plan, Scenario, cost_frontier, make_plan, make_quick_plan
from square.cli import arguments, bundled, documents, frontier, text
from square.cli.waiting import Waiting
from square.errors import DeadlineExceededError, InvalidArgumentError
from square.planning import with_policy

EXACT = "exact"


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "plan",
        "plan a scenario and print a summary",
        "Solves the plan of a scenario and prints who sends what over which trees at what rate,\n"
        "and how close to the optimum that is.",
        "  square plan scenario.toml --policy exact --budget 20",
    )
    parser.add_argument("scenario", type=Path, metavar="SCENARIO", help=bundled.HELP)
    arguments.add_units(parser)
    arguments.add_policy_parts(parser)
    arguments.add_exact_parts(parser)
    parser.add_argument(
        "--timeout",
        type=arguments.positive_float,
        metavar="SECONDS",
        help="then give up and print a quick plan, which fits but may be slower than it could be",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--rates-only",
        action="store_true",
        help="only rates and their certificate, no trees; sooner (policy exact)",
    )
    what.add_argument(
        "--frontier",
        type=arguments.positive_int,
        metavar="POINTS",
        help="what more rate costs, at so many levels, in the place of a plan (policy exact)",
    )
    parser.add_argument(
        "--explain",
        metavar="SESSION",
        help="why this session has no higher rate, in the place of a summary; a collective: collective:N",
    )
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="also draw the overlay with its loads; .png, .svg or .pdf (needs matplotlib)",
    )
    arguments.add_output(parser, "the plan, the explanation or the frontier")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    documents.check_writable(options.output)
    if options.frontier is not None and (options.explain is not None or options.plot is not None):
        raise InvalidArgumentError("--frontier makes no plan to explain or to plot: leave out one of them")
    if options.plot is not None:
        viz.check_plot(options.plot)
    scenario = _scenario(options)
    if options.rates_only and scenario.policy.name != EXACT:
        raise InvalidArgumentError(
            f'--rates-only: the rates of the policy "{scenario.policy.name}" are those of its trees: '
            f'choose "{EXACT}", or leave it out'
        )
    if options.frontier is not None:
        return _frontier(scenario, options)
    plan = _plan(scenario, options)
    if options.plot is not None:
        viz.plot_plan(plan, options.plot)
    if options.explain is not None:
        return _explain(plan, options)
    if _write(plan.to_json, options):
        return 0
    from square.cli.summary import print_plan

    print_plan(plan, scenario.name, text.console_for())
    return 0


def _plan(scenario: Scenario, options: argparse.Namespace) -> Plan:
    """The plan; after the timeout a quick one, where streams are asked for."""
    try:
        with Waiting("planning"):
            return make_plan(scenario, not options.rates_only, options.timeout).plan
    except DeadlineExceededError as late:
        if options.timeout is None or options.rates_only:
            raise
        sys.stderr.write(f"square: {late}\nsquare: a quick plan instead; nothing about it is proven\n")
    return make_quick_plan(scenario).plan


def _explain(plan: Plan, options: argparse.Namespace) -> int:
    from square.cli import explanation
    from square.cli.limits.document import to_json
    from square.cli.limits.explanation import explain

    explained = explain(plan, options.explain)
    if not _write(lambda: documents.to_text(to_json(explained)), options):
        explanation.print_explanation(explained, text.console_for())
    return 0


def _scenario(options: argparse.Namespace) -> Scenario:
    parts = arguments.policy_parts(options)
    return with_policy(bundled.read(options.scenario, options.units), policy=options.policy, **parts)


def _frontier(scenario: Scenario, options: argparse.Namespace) -> int:
    with Waiting("planning the frontier"):
        points = cost_frontier(scenario, options.frontier, options.timeout)
    if not _write(lambda: documents.to_text(frontier.to_json(points, scenario.name)), options):
        frontier.print_frontier(points, scenario.name, text.console_for())
    return 0


def _write(document: Callable[[], str], options: argparse.Namespace) -> bool:
    """To the file that is named; with ``--json`` also to standard output, and that is all then."""
    if options.output is not None:
        documents.write_file(options.output, document())
    if options.json:
        sys.stdout.write(document() + "\n")
    return bool(options.json)
