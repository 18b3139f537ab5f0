"""`square check`: is a plan sound?"""

import argparse
import sys
from pathlib import Path

from square._core import Plan
from square.cli import arguments, documents
from square.planning import violations


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "check",
        "check a plan with code that the planner does not know",
        "Checks link and node limits, that every stream reaches every destination, rates and byte\n"
        "ranges. Prints one line for each thing that is wrong; exit code 1 if there is any.",
        "  square plan scenario.toml --json > plan.json && square check plan.json",
    )
    parser.add_argument(
        "plan", type=Path, metavar="PLAN.json", help="from `square plan --json`; - is standard input"
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    document = sys.stdin.read() if str(options.plan) == "-" else documents.read_text(options.plan)
    plan = Plan.from_json(document)
    wrong = violations(plan)
    for violation in wrong:
        print(violation)
    if wrong:
        return 1
    streams = sum(len(session.streams) for session in plan.sessions)
    print(f"sound: {len(plan.collectives)} collectives, {len(plan.sessions)} sessions, {streams} streams")
    return 0
