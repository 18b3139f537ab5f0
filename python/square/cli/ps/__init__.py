"""`square ps`: masters and servers of parameter servers, and how they are."""

from square.cli import arguments
from square.cli.ps import audit, master, place, rounds, server, status


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "ps",
        "parameter servers between sites that train on their own",
        "Runs a master or a server of parameter servers, and says how they are. Workers are training\n"
        "scripts: square.ps.Worker.",
        "  square ps master --bind 127.0.0.1:7000 --servers 2\n"
        "  square ps server --master 127.0.0.1:7000 --snapshots /data/one\n"
        "  square ps status --master 127.0.0.1:7000",
    )
    roles = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for role in (master, server, status, rounds, audit, place):
        role.add_parser(roles)
