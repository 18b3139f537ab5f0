"""`square ps rounds`."""

import argparse

from square.cli import arguments, documents
from square.cli.ps.documents import to_plain
from square.cli.ps.question import add_question, asked
from square.ps import RoundStatus

DEFAULT_ROUNDS = 10


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "rounds",
        "what the newest versions were made of",
        "Prints the newest rounds of a master, the oldest first: who pushed and how that was judged, and\n"
        "the hash of each server's part of the version. A master remembers 64, of those that it made.",
        "  square ps rounds --master 127.0.0.1:7000 --limit 3",
    )
    add_question(parser)
    parser.add_argument(
        "--limit",
        type=arguments.positive_int,
        default=DEFAULT_ROUNDS,
        metavar="N",
        help=f"the newest N (default {DEFAULT_ROUNDS})",
    )
    parser.add_argument("--json", action="store_true", help="print them as JSON")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    rounds = asked(options).rounds[-options.limit :]
    if options.json:
        print(documents.to_text({"rounds": to_plain(rounds)}))
        return 0
    for one in rounds:
        _print(one)
    if not rounds:
        print("no rounds yet, since this master began")
    return 0


def _print(made: RoundStatus) -> None:
    what = f"norm {made.norm:.4g}, factor {made.factor:.4g}" if made.pushes else "no pushes"
    print(f"version {made.version}: {made.seconds:.3f} s, {what}")
    for push in made.pushes:
        print(
            f"  {push.worker:<24} {push.decision:<10} norm {push.norm:<9.3g} score {push.score:<6.2f} "
            f"weight {push.weight:<6.3g} {push.tokens:,} tokens from version {push.base_version}"
        )
    for part in made.parts:
        last = part.first_element + part.elements
        print(f"  {part.server:<24} {part.hash:016x}   elements {part.first_element:,} to {last:,}")
