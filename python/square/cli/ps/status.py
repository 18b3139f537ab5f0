"""`square ps status`."""

import argparse

from square.cli import arguments, documents
from square.cli.ps.documents import to_plain
from square.cli.ps.question import add_question, asked
from square.ps import Status


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "status",
        "what a master knows of its servers and workers",
        "Prints the newest version, what is in it, and each member's last round.",
        "  square ps status --master 127.0.0.1:7000 --json",
    )
    add_question(parser)
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    status = asked(options)
    if options.json:
        print(documents.to_text(to_plain(status)))
    else:
        _print(status)
    return 0


def _print(status: Status) -> None:
    print(f"version {status.version}, {status.tokens:,} tokens, {status.rounds_skipped} rounds skipped")
    if status.chunks:
        print(f"chunks: {status.chunks_done:,} of {status.chunks:,} done, {status.chunks_held:,} held")
    if status.moves_shards:
        print("parts of the model move to servers that came later")
    if status.waits_for:
        print(f"waits for {status.waits_for}")
    if status.workers:
        print(
            f"{'worker':<24} {'':4} {'base':>6} {'pushes':>7} {'out':>4} {'skip':>5} {'behind':>6} "
            f"{'push s':>8} {'pull s':>8} {'idle':>5} {'norm':>9} {'score':>6}"
        )
    for worker in status.workers:
        print(
            f"{worker.name:<24} {'up' if worker.is_connected else 'lost':4} {worker.base_version:>6} "
            f"{worker.pushes:>7} {worker.excluded:>4} {worker.skipped:>5} {worker.staleness:>6} "
            f"{worker.push_seconds:>8.3f} {worker.pull_seconds:>8.3f} {worker.idle_share:>5.0%} "
            f"{worker.norm:>9.3g} {worker.score:>6.2f}"
        )
    if status.servers:
        print(f"{'server':<24} {'':4} {'elements':>14} {'update s':>9} {'snapshot s':>10}")
    for server in status.servers:
        print(
            f"{server.name:<24} {'up' if server.is_connected else 'lost':4} {server.elements:>14,} "
            f"{server.update_seconds:>9.3f} {server.snapshot_seconds:>10.3f}"
        )
