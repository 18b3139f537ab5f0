"""Options that several commands share."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from square._core import policy_names
from square.planning import PolicyParts

Commands = Any  # argparse does not name the type of what add_subparsers returns


def add_command(
    commands: Commands, name: str, summary: str, description: str, example: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=f"example:\n{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_policy_parts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("policy", "instead of what the scenario says")
    group.add_argument("--policy", metavar="NAME", help=", ".join(policy_names()))
    group.add_argument("--shots", type=positive_int, metavar="N", help="rounds of max-min")
    group.add_argument("--paths", metavar="KIND:K", help='feasible paths: "shortest:7", "widest:2", "all"')
    group.add_argument("--fairness", choices=("collective", "tenant"), help="what is treated alike")


def add_exact_parts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("policy exact", "what only this policy knows")
    group.add_argument(
        "--objective", choices=("fair", "cost"), help="the fairest rates, or the required ones at least cost"
    )
    group.add_argument("--gap", type=gap, metavar="G", help="how far from proven optimal a rate may stay")
    group.add_argument(
        "--deadline", type=positive_float, metavar="SECONDS", help="then print the best plan so far"
    )
    group.add_argument("--max-streams", type=positive_int, metavar="T", help="trees a session at most")
    group.add_argument(
        "--coding", choices=("exact", "float32", "off"), help="codes where trees fall short (default exact)"
    )
    group.add_argument(
        "--budget",
        type=positive_float,
        metavar="USD",
        dest="budget_usd_per_hour",
        help="what all traffic may cost, USD an hour",
    )
    group.add_argument(
        "--headroom", type=not_negative_float, metavar="Z", help="plan for capacities less Z deviations"
    )
    group.add_argument(
        "--avoid-node",
        action="append",
        metavar="NAME",
        dest="avoid_nodes",
        help="relays nothing; may be repeated",
    )
    group.add_argument(
        "--avoid-link",
        action="append",
        nargs=2,
        metavar=("FROM", "TO"),
        dest="avoid_links",
        help="carries nothing; may be repeated",
    )


def policy_parts(options: argparse.Namespace) -> PolicyParts:
    """What was said of the parts above, as keywords: options are called as they are."""
    given = {part: getattr(options, part, None) for part in PolicyParts.__annotations__}
    return cast(PolicyParts, given)


def add_output(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--json", action="store_true", help=f"print {what} as JSON and nothing else")
    parser.add_argument("--output", type=Path, metavar="FILE", help=f"also write {what} as JSON to this file")


def add_machines(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--machines",
        type=Path,
        metavar="FILE",
        help="run each node on the machine that this file names for it (TOML, docs/running.md), over ssh",
    )


def add_units(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--units",
        metavar="UNIT",
        help='the unit of numbers without one in a topology file: "Mbit/s", "Gbps", "MB/s"; "none": they are '
        "no speeds",
    )


def add_scale_bytes(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--scale-bytes", type=positive_float, metavar="F", help="send F times the bytes of the scenario"
    )


def positive_int(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of 1 or more, not {text!r}")
    return value


def positive_float(text: str) -> float:
    return _number(text, "above 0", lambda value: 0 < value < math.inf)


def not_negative_float(text: str) -> float:
    return _number(text, "0 or above", lambda value: 0 <= value < math.inf)


def gap(text: str) -> float:
    return _number(text, "from 0 to below 1", lambda value: 0 <= value < 1)


def policy_list(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if "" in names:
        raise argparse.ArgumentTypeError(f"must be names with commas between, not {text!r}")
    if len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"names a policy twice: {text!r}")
    return names


def _number(text: str, what: str, fits: Callable[[float], bool]) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not fits(value):
        raise argparse.ArgumentTypeError(f"must be a number {what}, not {text!r}")
    return value
