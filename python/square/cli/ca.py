"""`square ca`: an operator's own authority, and what it signs."""

import argparse
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from square._core import Authority, Identity
from square.cli import arguments, documents

ROLES = ("node", "tenant", "controller", "server")
DEFAULT_LIFE = timedelta(days=7)
DEFAULT_GRANT_LIFE = timedelta(days=90)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def add_parser(commands: arguments.Commands) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "ca",
        help="identities of nodes and controllers, and what tenants may do",
        description="Keeps an authority in a folder, and signs with it: identities, by which processes know\n"
        "one another, and grants, which say what a tenant may do. docs/security.md has the whole of it.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_init(parts)
    _add_issue(parts)
    _add_grant(parts)
    _add_revoke(parts)
    _add_show(parts)


def _add_init(parts: arguments.Commands) -> None:
    parser = arguments.add_command(
        parts,
        "init",
        "make an authority",
        "Makes a key and its certificate in a folder. Keep it away from the machines of the overlay.",
        "  square ca init authority --domain square.example",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new one")
    parser.add_argument("--domain", required=True, metavar="DOMAIN", help="what all its names are under")
    _finish(parser, _init)


def _add_issue(parts: arguments.Commands) -> None:
    parser = arguments.add_command(
        parts,
        "issue",
        "an identity for a process",
        "Writes a new key and its certificate into a folder, for --identity. Done again for the same folder\n"
        "it replaces both; processes that run see it within a second or two, and nothing is interrupted.",
        "  square ca issue authority --node fra --out identities/fra\n"
        "  square ca issue authority --controller main --out identities/controller --life 30d",
    )
    parser.add_argument("authority", type=Path, metavar="AUTHORITY", help="the folder of `square ca init`")
    _add_roles(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where to write it")
    parser.add_argument(
        "--life", type=life, default=DEFAULT_LIFE, metavar="TIME", help="as 12h or 30d (default 7d)"
    )
    _finish(parser, _issue)


def _add_grant(parts: arguments.Commands) -> None:
    parser = arguments.add_command(
        parts,
        "grant",
        "what a tenant may do",
        "Writes a signed grant into the folder of a node's identity: without one a controller that has an\n"
        "authority registers no group of the tenant. Groups may be on the nodes that it names.",
        "  square ca grant authority --tenant alice --on fra oslo --weight 2 --out identities/fra",
    )
    parser.add_argument("authority", type=Path, metavar="AUTHORITY", help="the folder of `square ca init`")
    parser.add_argument("--tenant", required=True, metavar="NAME", help='"*" stands for every tenant')
    parser.add_argument("--out", type=Path, required=True, nargs="+", metavar="FOLDER", help="of identities")
    parser.add_argument("--on", nargs="+", default=[], metavar="NODE", help="its nodes (default: all)")
    parser.add_argument("--operations", nargs="+", default=[], metavar="OP", help="default: all")
    parser.add_argument("--weight", type=arguments.positive_float, default=1.0, metavar="W")
    parser.add_argument("--groups", type=arguments.positive_int, default=64, metavar="N", help="at once")
    parser.add_argument(
        "--collectives", type=arguments.positive_int, default=4096, metavar="N", help="at once, of all groups"
    )
    parser.add_argument(
        "--sessions",
        type=arguments.positive_int,
        default=8192,
        metavar="N",
        help="that plans make of its collectives: sources with their destinations (default 8192)",
    )
    parser.add_argument(
        "--members",
        type=arguments.positive_int,
        default=1024,
        metavar="N",
        help="of one group (default 1024)",
    )
    parser.add_argument(
        "--open-operations",
        type=arguments.positive_int,
        metavar="N",
        help="that its members on a node may have under way at once (default: no limit)",
    )
    parser.add_argument(
        "--open-bytes", type=arguments.positive_int, metavar="BYTES", help="the same in bytes of its calls"
    )
    parser.add_argument(
        "--life", type=life, default=DEFAULT_GRANT_LIFE, metavar="TIME", help="as 12h or 30d (default 90d)"
    )
    _finish(parser, _grant)


def _add_revoke(parts: arguments.Commands) -> None:
    parser = arguments.add_command(
        parts,
        "revoke",
        "believe no certificate of a name that was issued before now",
        "Adds to the list in the folder of the controller's identity. A controller that runs tells its\n"
        "nodes within a second, and they end their links. One that is issued later is believed.",
        "  square ca revoke identities/controller --node fra",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of the controller's identity")
    _add_roles(parser)
    _finish(parser, _revoke)


def _add_show(parts: arguments.Commands) -> None:
    parser = arguments.add_command(
        parts,
        "show",
        "whose identity a folder holds",
        "Prints the name and the fingerprint, once the files are found to be good.",
        "  square ca show identities/fra",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of an identity")
    _finish(parser, _show)


def _add_roles(parser: argparse.ArgumentParser) -> None:
    who = parser.add_mutually_exclusive_group(required=True)
    for role in ROLES:
        who.add_argument(f"--{role}", metavar="NAME", help=f"the {role} of that name")


def _finish(parser: argparse.ArgumentParser, execute: object) -> None:
    parser.add_argument("--json", action="store_true", help="print the outcome as a line of JSON")
    parser.set_defaults(execute=execute)


def life(text: str) -> timedelta:
    """Of a number and s, m, h or d."""
    match = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if match is None or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"must be a time such as 90s, 30m, 12h or 7d, not {text!r}")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _role(options: argparse.Namespace) -> tuple[str, str]:
    return next((role, getattr(options, role)) for role in ROLES if getattr(options, role) is not None)


def _say(options: argparse.Namespace, document: dict[str, Any], words: str) -> int:
    if options.json:
        documents.print_line(document)
    else:
        print(words)
    return 0


def _init(options: argparse.Namespace) -> int:
    authority = Authority.create(options.folder, options.domain)
    told = {"folder": str(options.folder), "domain": authority.domain}
    return _say(options, told, f"{options.folder}: the authority of {authority.domain}")


def _issue(options: argparse.Namespace) -> int:
    role, name = _role(options)
    Authority(options.authority).issue(role, name, options.out, options.life)
    identity = Identity(options.out)
    told = {"folder": str(options.out), "name": identity.name, "fingerprint": identity.fingerprint}
    return _say(options, told, f"{options.out}: {identity.name}")


def _grant(options: argparse.Namespace) -> int:
    authority = Authority(options.authority)
    for folder in options.out:
        authority.grant(
            options.tenant,
            folder,
            options.life,
            nodes=options.on,
            operations=options.operations,
            weight=options.weight,
            groups=options.groups,
            collectives=options.collectives,
            sessions=options.sessions,
            members=options.members,
            open_operations=options.open_operations,
            open_bytes=options.open_bytes,
        )
    folders = [str(folder) for folder in options.out]
    told = {"folders": folders, "tenant": options.tenant}
    return _say(options, told, f"{', '.join(folders)}: a grant of tenant {options.tenant}")


def _revoke(options: argparse.Namespace) -> int:
    role, name = _role(options)
    Identity(options.folder)  # says what is wrong with another folder
    Authority.revoke(role, name, options.folder)
    told = {"folder": str(options.folder), "role": role, "name": name}
    return _say(options, told, f"{options.folder}: what {role} {name} had until now is revoked")


def _show(options: argparse.Namespace) -> int:
    identity = Identity(options.folder)
    told = {"folder": str(options.folder), "name": identity.name, "fingerprint": identity.fingerprint}
    return _say(options, told, f"{identity.name}\n{identity.fingerprint}")
