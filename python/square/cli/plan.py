"""`square plan`: what would happen."""

import argparse
import signal
import sys
from pathlib import Path

from square._core import Scenario, make_plan
from square.cli import arguments, documents, text
from square.planning import with_policy


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "plan",
        "plan a scenario and print a summary",
        "Solves the plan of a scenario and prints who sends what over which trees at what rate,\n"
        "and how close to the optimum that is.",
        "  square plan scenario.toml --policy mcf --paths widest:2",
    )
    parser.add_argument(
        "scenario", type=Path, metavar="SCENARIO", help="a TOML file; docs/scenario.md lists its keys"
    )
    arguments.add_policy_parts(parser)
    arguments.add_output(parser, "the plan")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    documents.check_writable(options.output)
    scenario = with_policy(
        Scenario.read(str(options.scenario)),
        policy=options.policy,
        shots=options.shots,
        paths=options.paths,
        fairness=options.fairness,
    )
    # A solver does not look for Ctrl-C; nothing is left behind by a plain end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    plan = make_plan(scenario).plan
    if options.output is not None:
        documents.write_file(options.output, plan.to_json())
    if options.json:
        sys.stdout.write(plan.to_json() + "\n")
        return 0
    from square.cli.summary import print_plan

    print_plan(plan, scenario.name, text.console_for())
    return 0
