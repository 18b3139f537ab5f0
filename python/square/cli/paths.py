"""`square paths`: how data may get from one node to another."""

import argparse
import difflib
import math
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from square._core import Topology
from square.cli import arguments, documents, text
from square.cli.topology import add_file, figure, read_topology
from square.errors import InvalidArgumentError, NotFoundError

FORMAT = "square.paths/1"
DEFAULT_PATHS = 8
MAX_PATHS = 10_000
MAX_NEAR = 3
# Of difflib's measure, from 0 to 1: less is another name rather than a misspelling.
LEAST_LIKENESS = 0.5


@dataclass(frozen=True)
class FoundPath:
    """A simple path with what its links add up to. Prices add: each byte crosses every link."""

    nodes: list[str]
    width_bps: float
    latency: float  # seconds
    price_usd_per_gb: float

    @property
    def hops(self) -> int:
        return len(self.nodes) - 1


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "paths",
        "list the shortest or widest paths between two nodes",
        "Prints the first simple paths from one node to another, in the order in which a policy with\n"
        'paths = "shortest:K" or "widest:K" takes them. Exit code 1 where there is none.',
        '  square paths abilene.gml "New York" Seattle --k 3 --widest',
    )
    add_file(parser)
    parser.add_argument("source", metavar="FROM", help="the node that sends")
    parser.add_argument("target", metavar="TO", help="the node that receives")
    parser.add_argument(
        "--k",
        type=path_count,
        default=DEFAULT_PATHS,
        metavar="K",
        help=f"how many, from 1 to {MAX_PATHS}; {DEFAULT_PATHS} unless told",
    )
    parser.add_argument("--widest", action="store_true", help="by width, then hops; else by hops, then width")
    parser.add_argument("--json", action="store_true", help="print the paths as JSON and nothing else")
    parser.set_defaults(execute=execute)


def path_count(argument: str) -> int:
    count = arguments.positive_int(argument)
    if count > MAX_PATHS:
        raise argparse.ArgumentTypeError(f"must be at most {MAX_PATHS}, not {count}")
    return count


def execute(options: argparse.Namespace) -> int:
    topology = read_topology(options.file, options.units)
    check_ends(options.file, [node.name for node in topology.nodes], options.source, options.target)
    # The search does not look for Ctrl-C; nothing is left behind by a plain end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    search = topology.k_widest_paths if options.widest else topology.k_shortest_paths
    paths = measured(topology, search(options.source, options.target, options.k))
    if options.json:
        sys.stdout.write(documents.to_text(to_json(options, paths)) + "\n")
    elif paths:
        _print_paths(options, paths)
    else:
        reached = len(topology.reachable_from(options.source)) - 1
        print(
            f'no path leads from "{options.source}" to "{options.target}": '
            f"{reached} of {topology.node_count - 1} other nodes can be reached from there"
        )
    return 0 if paths else 1


def check_ends(file: Path, names: Sequence[str], source: str, target: str) -> None:
    """Raises NotFoundError with the nearest names, InvalidArgumentError where both ends are the same."""
    known = set(names)
    for name in (source, target):
        if name not in known:
            raise NotFoundError(f'{file}: there is no node "{name}"; {_advice(name, names)}')
    if source == target:
        raise InvalidArgumentError(f'FROM and TO are the same node, "{source}": name two nodes')


def measured(topology: Topology, paths: Sequence[Sequence[str]]) -> list[FoundPath]:
    """The paths with their widths, latencies and prices."""
    used = {pair for path in paths for pair in pairwise(path)}
    links = {pair: link for link in topology.links if (pair := (link.from_node, link.to_node)) in used}
    found = []
    for path in paths:
        mine = [links[pair] for pair in pairwise(path)]
        found.append(
            FoundPath(
                list(path),
                min(link.capacity_bps for link in mine),
                math.fsum(link.latency for link in mine),
                math.fsum(link.price_usd_per_gb for link in mine),
            )
        )
    return found


def to_json(options: argparse.Namespace, paths: Sequence[FoundPath]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "file": str(options.file),
        "from": options.source,
        "to": options.target,
        "order": "widest" if options.widest else "shortest",
        "k": options.k,
        "paths": [
            {
                "nodes": path.nodes,
                "hops": path.hops,
                "width_mbps": path.width_bps / 1e6 if math.isfinite(path.width_bps) else None,
                "latency_ms": path.latency * 1e3,
                "price_usd_per_gb": path.price_usd_per_gb,
            }
            for path in paths
        ],
    }


def _advice(name: str, names: Sequence[str]) -> str:
    by_lower = {known.lower(): known for known in names}
    near = difflib.get_close_matches(name.lower(), by_lower, MAX_NEAR, LEAST_LIKENESS)
    if near:
        return "the nearest: " + ", ".join(f'"{by_lower[word]}"' for word in near)
    return "`square topology FILE --json` lists them all"


def _print_paths(options: argparse.Namespace, paths: Sequence[FoundPath]) -> None:
    console = text.console_for()
    order = "widest" if options.widest else "shortest"
    table = text.table("", "hops", "width\nMbit/s", "latency\nms", "price\nUSD/GB", "nodes", left=0)
    table.columns[-1].justify = "left"
    for number, path in enumerate(paths, 1):
        table.add_row(
            str(number),
            str(path.hops),
            figure(path.width_bps / 1e6),
            figure(path.latency * 1e3),
            figure(path.price_usd_per_gb),
            " > ".join(path.nodes),
        )
    more = "there are no more" if len(paths) < options.k else "--k lists more"
    console.print(
        f"{options.source} to {options.target}: the {text.count(len(paths), f'{order} path')}; {more}"
    )
    console.print()
    console.print(table)
