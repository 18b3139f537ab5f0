"""`square check`: is a plan sound, and how good is it?"""

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from square._core import LevelGap, Plan
from square.cli import arguments, documents, text
from square.errors import InvalidArgumentError
from square.planning import gaps, violations

if TYPE_CHECKING:
    from rich.console import Console

MAX_IDS = 8


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "check",
        "check a plan with code that the planner does not know",
        "Checks link and node limits, that every stream reaches every destination, rates, costs, byte\n"
        "ranges and what the certificate proves. Prints one line for each thing that is wrong; exit\n"
        "code 1 if there is any. Of a sound plan it prints how far each level is from its bound.",
        "  square plan scenario.toml --json > plan.json && square check plan.json",
    )
    parser.add_argument(
        "plan", type=Path, metavar="PLAN.json", help="from `square plan --json`; - is standard input"
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON and nothing else")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    plan = Plan.from_json(_read_input() if str(options.plan) == "-" else documents.read_text(options.plan))
    wrong = violations(plan)
    # What is wrong may be a level itself.
    levels = [] if wrong else gaps(plan)
    if options.json:
        sys.stdout.write(documents.to_text(_document(plan, wrong, levels)) + "\n")
    elif wrong:
        for violation in wrong:
            print(violation)
    else:
        _print_sound(plan, levels)
    return 1 if wrong else 0


def _read_input() -> str:
    if sys.stdin is None:
        raise InvalidArgumentError("standard input: is closed")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"standard input: cannot be read: {error}") from None


def _streams(plan: Plan) -> int:
    return sum(len(session.streams) for session in plan.sessions)


def _document(plan: Plan, wrong: list[str], levels: list[LevelGap]) -> dict[str, Any]:
    return {
        "format": "square.check/1",
        "sound": not wrong,
        "violations": wrong,
        "collectives": len(plan.collectives),
        "sessions": len(plan.sessions),
        "streams": _streams(plan),
        "levels": [
            {
                "level": level.level,
                "collectives": [str(number) for number in plan.certificate.levels[level.level].collectives],
                "bound_mbps": _finite(level.bound_bps / 1e6),
                "lp_level_mbps": _finite(level.lp_level_bps / 1e6),
                "rate_level_mbps": _finite(level.rate_level_bps / 1e6),
                "lp_gap": _finite(level.lp_gap),
                "rate_gap": _finite(level.rate_gap),
            }
            for level in levels
        ],
        "cost_usd_per_hour": _finite(plan.cost_usd_per_hour),
        "cost_bound_usd_per_hour": plan.certificate.cost_bound_usd_per_hour,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _print_sound(plan: Plan, levels: list[LevelGap]) -> None:
    print(
        f"sound: {text.count(len(plan.collectives), 'collective')}, "
        f"{text.count(len(plan.sessions), 'session')}, {text.count(_streams(plan), 'stream')}"
    )
    if levels:
        _print_levels(plan, levels, text.console_for())
    bound = plan.certificate.cost_bound_usd_per_hour
    if plan.realised and (plan.cost_usd_per_hour > 0 or bound is not None):
        print(f"cost           {plan.cost_usd_per_hour:.6g} USD/hour")
    if bound is not None:
        over = _gap(plan.cost_usd_per_hour / bound - 1) if bound > 0 and plan.realised else "-"
        print(f"cost bound     {bound:.6g} USD/hour  (gap {over})")


def _print_levels(plan: Plan, levels: list[LevelGap], console: "Console") -> None:
    certified = plan.certificate.levels
    table = text.table(
        "level",
        "collectives",
        "bound\nMbit/s",
        "lp_rate\nMbit/s",
        "rate\nMbit/s",
        "lp gap",
        "rate gap",
        left=2,
    )
    for level in levels:
        table.add_row(
            str(level.level + 1),
            _ids(certified[level.level].collectives),
            text.rate(level.bound_bps),
            text.rate(level.lp_level_bps),
            text.rate(level.rate_level_bps if plan.realised else None),
            _gap(level.lp_gap),
            _gap(level.rate_gap),
        )
    console.print()
    text.print_titled(console, "Levels: rate / weight, and what its duals prove that it is at most", table)


def _ids(numbers: list[int]) -> str:
    if len(numbers) > MAX_IDS:
        return f"{len(numbers)} collectives"
    return ", ".join(map(str, numbers))


def _gap(gap: float) -> str:
    """Relative; rounding may bring a rate a few digits over its bound."""
    return f"{max(gap, 0.0):.1e}" if math.isfinite(gap) else "-"
