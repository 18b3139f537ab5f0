"""`square simulate`: what would happen, by nodes in virtual time."""

import argparse
import sys
from pathlib import Path
from typing import Any

from square._core import Plan, make_plan, simulate_plan
from square.cli import arguments, assumption, bundled, documents, text
from square.cli.run import scaled
from square.cli.waiting import Waiting
from square.planning import with_policy
from square.run.outcome import finite, ratio

FORMAT = "square.simulation/1"


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "simulate",
        "have nodes carry a scenario out in virtual time",
        "Plans the scenario and has the nodes of the data plane carry it out in virtual time, over links\n"
        "of its capacities and latencies: without processes, root or waiting. All collectives begin at\n"
        "once, and every byte that arrives is compared. Broadcasts, reduces and all-reduces.",
        "  square simulate scenario.toml --policy square --scale-bytes 0.1",
    )
    parser.add_argument("scenario", type=Path, metavar="SCENARIO", help=bundled.HELP)
    arguments.add_units(parser)
    parser.add_argument("--policy", metavar="NAME", help="instead of the scenario's policy")
    arguments.add_scale_bytes(parser)
    parser.add_argument(
        "--seed",
        type=arguments.positive_int,
        default=1,
        metavar="N",
        help="of the random bytes, and of the order in which nodes work (default 1)",
    )
    parser.add_argument(
        "--timeout",
        type=arguments.positive_float,
        metavar="SECONDS",
        help="end with an error after so much real time",
    )
    arguments.add_output(parser, "the completions")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    documents.check_writable(options.output)
    scenario = with_policy(bundled.read(options.scenario, options.units), policy=options.policy)
    if options.scale_bytes is not None:
        scenario = scaled(scenario, options.scale_bytes)
    with Waiting("planning"):
        plan = make_plan(scenario).plan
    with Waiting("simulating"):
        seconds = simulate_plan(scenario, plan, options.seed, options.timeout)
    simulated = dict(zip((c.id for c in scenario.collectives), seconds, strict=True))
    document = documents.to_text(_document(scenario.name, plan, simulated, options.seed))
    if options.output is not None:
        documents.write_file(options.output, document)
    if options.json:
        sys.stdout.write(document + "\n")
    else:
        _print(scenario.name, plan, simulated)
    return 0


def _document(name: str, plan: Plan, simulated: dict[int, float], seed: int) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "scenario": name,
        "policy": plan.policy,
        "seed": seed,
        "assumed": assumption.to_json(plan.assumed_links, plan.assumed_capacity_bps),
        "collectives": [
            {
                "id": str(c.id),
                "tenant": c.tenant,
                "op": c.op,
                "bytes": c.size_bytes,
                "planned_completion_seconds": finite(c.completion_seconds),
                "simulated_completion_seconds": simulated[c.id],
                "ratio": finite(ratio(simulated[c.id], c.completion_seconds)),
            }
            for c in plan.collectives
        ],
    }


def _print(name: str, plan: Plan, simulated: dict[int, float]) -> None:
    table = text.table(
        "id", "tenant", "operation", "MB", "planned\ns", "simulated\ns", "simulated/\nplanned", left=3
    )
    for c in plan.collectives:
        table.add_row(
            str(c.id),
            c.tenant,
            c.op,
            text.size(c.size_bytes),
            text.seconds(c.completion_seconds),
            text.seconds(simulated[c.id]),
            f"{ratio(simulated[c.id], c.completion_seconds):.3f}",
        )
    console = text.console_for()
    text.print_titled(console, f"Scenario {name}, planned by {plan.policy}, in virtual time", table)
    for sentence in assumption.of_plan(plan):
        console.print(sentence)
