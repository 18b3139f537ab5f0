"""`square doctor`: what is wrong with an overlay, who is guilty, and what to do."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from square.cli import arguments, documents, identities, operations, serving, text
from square.cli.waiting import Waiting
from square.page.words import printable

if TYPE_CHECKING:
    from square.doctor import Examination

DEFAULT_SECONDS = 10.0


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "doctor",
        "what is wrong with an overlay, and what to do",
        "Has every node of a running overlay reach its peers at their advertised addresses and look at its\n"
        "own host (clock, release, files, memory, processor, TCP, certificate), and names what is wrong:\n"
        "the node, the port or the link, and the remedy. The exit code is 0 without an error, 1 with one.\n"
        "With --operations: which rank of a group is behind, or called something else than the others.",
        "  square doctor --controller 127.0.0.1:7000\n"
        "  square doctor --controller ctl.example:7000 --identity me --security\n"
        "  square doctor --operations /tmp/flight",
    )
    subject = parser.add_mutually_exclusive_group(required=True)
    subject.add_argument(
        "--controller",
        metavar="ADDR",
        help="what `square controller` printed; several with commas",
    )
    subject.add_argument(
        "--operations",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="compare the flight records of all ranks, in these files and folders (default: the folder that "
        "SQUARE_FLIGHT_RECORD names); processes of this host write theirs anew first",
    )
    identities.add_options(parser, listens=False)
    parser.add_argument(
        "--timeout",
        type=arguments.positive_float,
        default=DEFAULT_SECONDS,
        metavar="SECONDS",
        help=f"how long nodes may take to answer (default {DEFAULT_SECONDS:.0f})",
    )
    parser.add_argument(
        "--security",
        action="store_true",
        help="tell alone what lets others read, change or stop what is sent: certificates that end, nodes "
        "without identity, blocks that go unsealed or were changed",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON and nothing else")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    if options.operations is not None:
        return operations.report(options.operations, as_json=options.json)
    from square.doctor import examine

    identity = identities.identity_of(options)
    with serving.mortal(), Waiting("the nodes look at one another"):
        examination = examine(options.controller, identity, options.timeout, security=options.security)
    if options.json:
        print(documents.to_text(examination.to_document()))
    else:
        _print(examination)
    return 0 if examination.is_healthy else 1


def _print(examination: "Examination") -> None:
    console = text.console_for()
    for finding in examination.findings:
        # A line each, which programs find; a terminal folds them by itself, and obeys no word of a node.
        lines = [f"{finding.severity}: {finding.guilty}", f"  seen:   {finding.seen}"]
        for number, line in enumerate([*lines, f"  remedy: {finding.remedy}"]):
            console.print(printable(line), style="" if number else "bold", soft_wrap=True)
        console.print()
    console.print(_summary(examination))


def _summary(examination: "Examination") -> str:
    counts = dict.fromkeys(("error", "warning", "hint"), 0)
    for finding in examination.findings:
        counts[finding.severity] += 1
    told = ", ".join(text.count(number, kind) for kind, number in counts.items() if number) or "nothing wrong"
    if examination.overlay is None:
        return f"square doctor: {told}; no node was asked"
    nodes = examination.overlay.nodes
    answered = sum(node.report is not None for node in nodes)
    return f"square doctor: {answered} of {text.count(len(nodes), 'node')} answered; {told}"
