"""`square topology`: what a topology file says."""

import argparse
import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from square._core import LinkView, NodeView, Reachability, Scenario, Topology
from square.cli import arguments, documents, identities, measured, text
from square.errors import InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from rich.console import Console

FORMAT = "square.topology/1"
DEFAULT_ROWS = 20
MAX_NAMES = 4
# A scenario rather than a topology: the table `overlay`, however it is written.
_OVERLAY = re.compile(rb"^(?:\xef\xbb\xbf)?\s*(\[\s*|\[\[\s*)?[\"']?overlay[\"']?\s*[\].=]", re.MULTILINE)


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "topology",
        "show what a topology file says, or write one of what was measured",
        "Reads a topology and prints its nodes and links, capacities, latencies, prices and limits,\n"
        "and which nodes cannot reach which. With --measured, asks a controller instead, and writes a\n"
        "topology file of what its nodes have measured.",
        "  square topology abilene.gml --limit 50\n"
        "  square topology --measured --controller 127.0.0.1:7000 -o measured.toml",
    )
    add_file(parser, optional=True)
    parser.add_argument(
        "--measured", action="store_true", help="what the nodes of --controller have measured, as a TOML file"
    )
    parser.add_argument(
        "--controller", metavar="ADDR", help="what `square controller` printed; several with commas"
    )
    identities.add_options(parser, listens=False)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where --measured writes; standard output unless told",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON and nothing else")
    parser.add_argument(
        "--limit",
        type=arguments.positive_int,
        default=DEFAULT_ROWS,
        metavar="N",
        help=f"rows of each table at most, {DEFAULT_ROWS} unless told; --json has all",
    )
    parser.set_defaults(execute=execute, parser=parser)


def add_file(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    parser.add_argument(
        "file",
        type=Path,
        nargs="?" if optional else None,
        metavar="FILE",
        help="a topology (.gml, .graphml, .csv, .toml), or a scenario (.toml): then its overlay",
    )
    arguments.add_units(parser)


def read_topology(file: Path, units: str | None) -> Topology:
    """The topology in a file; of a scenario its overlay."""
    if file.suffix.lower() != ".toml":
        return Topology.read(str(file), units)
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise NotFoundError(f"{file}: there is no such file") from None
    except OSError as error:
        raise InvalidArgumentError(f"{file}: cannot be read: {error.strerror}") from None
    if _OVERLAY.search(content):
        return Scenario.read(str(file), units).topology
    return Topology.read(str(file), units)


def execute(options: argparse.Namespace) -> int:
    if options.measured:
        if options.controller is None or options.file is not None:
            options.parser.error("--measured needs --controller, and no file")
        identity = identities.identity_of(options)
        return measured.execute(options.controller, identity, options.output, as_json=options.json)
    if options.file is None or options.controller is not None or options.output is not None:
        options.parser.error("name a topology file, or ask a controller with --measured --controller ADDR")
    topology = read_topology(options.file, options.units)
    nodes, links = topology.nodes, topology.links
    reach = topology.reachability()
    if options.json:
        sys.stdout.write(documents.to_text(to_json(str(options.file), nodes, links, reach)) + "\n")
        return 0
    console = text.console_for()
    console.print(
        f"topology {options.file}: {text.count(len(nodes), 'node')}, "
        f"{text.count(len(links), 'directed link')}"
    )
    console.print()
    _print_summary(summary(nodes, links), console)
    _print_reachability(reach, options.limit, console)
    _print_nodes(nodes, links, options.limit, console)
    _print_links(links, options.limit, console)
    return 0


def summary(nodes: Sequence[NodeView], links: Sequence[LinkView]) -> dict[str, dict[str, float | None]]:
    """Least, median and largest of each figure, and how many nodes or links have none."""
    out = Counter(link.from_node for link in links)
    into = Counter(link.to_node for link in links)
    return {
        "capacity_mbps": _spread([link.capacity_bps / 1e6 for link in links]),
        "capacity_stddev_mbps": _spread([link.capacity_stddev_bps / 1e6 for link in links]),
        "latency_ms": _spread([link.latency * 1e3 for link in links]),
        "price_usd_per_gb": _spread([link.price_usd_per_gb for link in links]),
        "egress_mbps": _spread([node.egress_bps / 1e6 for node in nodes]),
        "ingress_mbps": _spread([node.ingress_bps / 1e6 for node in nodes]),
        "links_out": _spread([float(out[node.name]) for node in nodes]),
        "links_in": _spread([float(into[node.name]) for node in nodes]),
    }


def to_json(
    file: str, nodes: Sequence[NodeView], links: Sequence[LinkView], reach: Reachability
) -> dict[str, Any]:
    groups, lost = reach.groups, reach.unreachable
    unreachable = None
    if lost is not None:
        unreachable = [
            {"from_group": group, "to_groups": missing} for group, missing in enumerate(lost) if missing
        ]
    return {
        "format": FORMAT,
        "file": file,
        "node_count": len(nodes),
        "link_count": len(links),
        "summary": summary(nodes, links),
        "strongly_connected": len(groups) <= 1,
        "groups": groups,
        "unreachable": unreachable,
        "nodes": [
            {
                "name": node.name,
                "egress_mbps": _finite(node.egress_bps / 1e6),
                "ingress_mbps": _finite(node.ingress_bps / 1e6),
            }
            for node in nodes
        ],
        "links": [
            {
                "from": link.from_node,
                "to": link.to_node,
                "capacity_mbps": _finite(link.capacity_bps / 1e6),
                "capacity_stddev_mbps": link.capacity_stddev_bps / 1e6,
                "latency_ms": link.latency * 1e3,
                "price_usd_per_gb": link.price_usd_per_gb,
            }
            for link in links
        ],
    }


def figure(value: float | None) -> str:
    """Three digits behind the point; of a number too small for that, the first three."""
    if value is None:
        return "-"
    if math.isinf(value):
        return "no limit"
    return f"{value:.3f}" if value == 0 or value >= 0.001 else f"{value:.3g}"


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    known = sorted(value for value in values if math.isfinite(value))
    half = len(known) // 2
    return {
        "least": known[0] if known else None,
        "median": known[half] / 2 + known[-1 - half] / 2 if known else None,
        "largest": known[-1] if known else None,
        "without": len(values) - len(known),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _print_summary(spreads: dict[str, dict[str, float | None]], console: "Console") -> None:
    table = text.table("", "least", "median", "largest", "without")
    for key, title in (
        ("capacity_mbps", "capacity, Mbit/s"),
        ("capacity_stddev_mbps", "its standard deviation, Mbit/s"),
        ("latency_ms", "latency, ms"),
        ("price_usd_per_gb", "price, USD/GB"),
        ("egress_mbps", "limit of what leaves a node, Mbit/s"),
        ("ingress_mbps", "limit of what enters a node, Mbit/s"),
        ("links_out", "links out of a node"),
        ("links_in", "links into a node"),
    ):
        spread = spreads[key]
        if key == "capacity_stddev_mbps" and not spread["largest"]:
            continue
        digits = (lambda value: "-" if value is None else f"{value:g}") if key.startswith("links") else figure
        table.add_row(
            title,
            digits(spread["least"]),
            digits(spread["median"]),
            digits(spread["largest"]),
            f"{spread['without']:g}",
        )
    text.print_titled(console, "Summary", table)


def _print_reachability(reach: Reachability, limit: int, console: "Console") -> None:
    groups, unreachable = reach.groups, reach.unreachable
    if len(groups) <= 1:
        console.print("strongly connected: every node reaches every other")
        console.print()
        return
    console.print(
        f"not strongly connected: {len(groups)} groups of nodes, each of nodes that reach one another"
    )
    rows = [(group, missing) for group, missing in enumerate(unreachable or []) if missing]
    for group, missing in rows[:limit]:
        lost = [name for other in missing for name in groups[other]]
        console.print(f"  no path from {_names(groups[group])} to {_names(lost)}")
    if unreachable is None:
        console.print("  too many groups to say which cannot reach which; --json lists the groups")
    elif len(rows) > limit:
        console.print(f"  ... and {len(rows) - limit} more groups; --json lists them")
    console.print()


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_NAMES])
    return shown if len(names) <= MAX_NAMES else f"{shown} and {len(names) - MAX_NAMES} more"


def _print_nodes(
    nodes: Sequence[NodeView], links: Sequence[LinkView], limit: int, console: "Console"
) -> None:
    shown = nodes[:limit]
    out = {node.name: [0, 0.0] for node in shown}
    into = {node.name: [0, 0.0] for node in shown}
    for link in links:
        for sums, name in ((out, link.from_node), (into, link.to_node)):
            if name in sums:
                sums[name][0] += 1
                sums[name][1] += link.capacity_bps / 1e6
    table = text.table(
        "node",
        "links\nout",
        "together\nMbit/s",
        "limit\nMbit/s",
        "links\nin",
        "together\nMbit/s",
        "limit\nMbit/s",
    )
    for node in shown:
        cells = [node.name]
        for sums, limit_bps in ((out, node.egress_bps), (into, node.ingress_bps)):
            count, capacity = sums[node.name]
            cells += [f"{count:g}", figure(capacity), figure(limit_bps / 1e6)]
        table.add_row(*cells)
    text.print_titled(console, _title("Nodes", len(shown), len(nodes)), table)


def _print_links(links: Sequence[LinkView], limit: int, console: "Console") -> None:
    shown = links[:limit]
    table = text.table(
        "from", "to", "capacity\nMbit/s", "deviation\nMbit/s", "latency\nms", "price\nUSD/GB", left=2
    )
    for link in shown:
        table.add_row(
            link.from_node,
            link.to_node,
            figure(link.capacity_bps / 1e6),
            figure(link.capacity_stddev_bps / 1e6),
            figure(link.latency * 1e3),
            figure(link.price_usd_per_gb),
        )
    text.print_titled(console, _title("Links", len(shown), len(links)), table)


def _title(what: str, shown: int, there: int) -> str:
    return what if shown == there else f"{what} ({shown} of {there}; --limit shows more, --json all)"
