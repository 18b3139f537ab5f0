"""`square ps audit`."""

import argparse
from pathlib import Path

from square.cli import arguments, documents, text
from square.cli.ps.documents import to_plain
from square.cli.ps.snapshot_audit import Audit, AuditedVersion, audit_folders

_NOT_CHECKED = "that parameters are what the pushes give, which snapshots do not have"


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "audit",
        "whether the snapshots of all servers fit together",
        "Reads all snapshots of a training, whose servers rest meanwhile, and checks of each version: every\n"
        "file has the hash that it says, all elements are there, all servers have the same record, it\n"
        "follows on the one before, in tokens too, and no chunk is counted twice. One line a version with\n"
        "the hash of each part, and what is wrong below it; then the exit code is 1.\n"
        f"Not checked: {_NOT_CHECKED}.",
        "  square ps audit /data/one /data/two",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="of each server: all of them")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    audit = audit_folders(options.folders)
    if options.json:
        print(documents.to_text({**to_plain(audit), "is_good": audit.is_good, "not_checked": _NOT_CHECKED}))
    else:
        for version in audit.versions:
            _print(version)
        print(_summary(audit))
        print(f"not checked: {_NOT_CHECKED}")
    return 0 if audit.is_good else 1


def _print(version: AuditedVersion) -> None:
    hashes = "  ".join(f"{server} {found}" for server, found in version.hashes.items()) or "no readable part"
    tokens = "" if version.tokens is None else f", {version.tokens:,} tokens"
    pushes = "1 push" if version.pushes == 1 else f"{version.pushes} pushes"
    print(f"version {version.version}: {'WRONG' if version.wrong else 'good'}, {pushes}{tokens}, {hashes}")
    for what in version.wrong:
        print(f"  {what}")


def _summary(audit: Audit) -> str:
    first = audit.versions[0].version
    line = f"{text.count(len(audit.versions), 'version')}, {text.count(audit.chunks, 'chunk')}"
    wrong = sum(bool(one.wrong) for one in audit.versions)
    line += f", {wrong} wrong" if wrong else ", all good"
    if first > 1:
        line += f"; versions before {first} are not there, nor are their tokens and chunks checked"
    return line
