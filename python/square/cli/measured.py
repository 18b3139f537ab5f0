"""`square topology --measured`: what the nodes of an overlay have measured, as a topology file."""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import square
from square._core import Identity
from square.cli import documents, text

if TYPE_CHECKING:
    from square._core import LinkInformation, NodeView

FORMAT = "square.links/1"
# A measured capacity that is less than the topology's by a larger part contradicts it.
CONTRADICTION = 0.1
FIGURES = 4


def execute(controller: str, identity: Identity | None, output: Path | None, *, as_json: bool) -> int:
    """Writes the topology to `output`, or standard output; tells on standard error what contradicts."""
    overlay = square.list_links(controller, identity)
    for link in overlay.links:
        if contradicts(link):
            sys.stderr.write(contradiction(link) + "\n")
    if as_json:
        content = documents.to_text(to_json(overlay.links))
    else:
        content = to_toml(overlay.topology.nodes, overlay.links)
    if output is None:
        sys.stdout.write(content + "\n")
        return 0
    documents.write_file(output, content)
    known = sum(link.measured_bps > 0 for link in overlay.links)
    links = text.count(len(overlay.links), "link")
    sys.stdout.write(f"wrote {output}: {links}, {known} of them measured\n")
    return 0


def contradicts(link: "LinkInformation") -> bool:
    return 0 < link.measured_bps * (1 + CONTRADICTION) < link.given_bps and math.isfinite(link.given_bps)


def contradiction(link: "LinkInformation") -> str:
    then = "it is fixed" if link.is_fixed else f"it is planned with {_mbps(link.planned_bps)} Mbit/s"
    return (
        f"warning: the link from {link.from_node} to {link.to_node} carries "
        f"{_mbps(link.measured_bps)} Mbit/s, and the topology says {_mbps(link.given_bps)} Mbit/s; {then}"
    )


def to_toml(nodes: Sequence["NodeView"], links: Sequence["LinkInformation"]) -> str:
    """A topology file: of each link what was measured, else what the controller's topology has."""
    lines = ["# Measured by the nodes of an overlay."]
    for node in nodes:
        lines += ["", "[[node]]", f"name = {_quoted(node.name)}"]
        if math.isfinite(node.egress_bps):
            lines.append(f"egress_mbps = {_mbps(node.egress_bps)}")
        if math.isfinite(node.ingress_bps):
            lines.append(f"ingress_mbps = {_mbps(node.ingress_bps)}")
    for link in links:
        lines += ["", "[[link]]", f"from = {_quoted(link.from_node)}", f"to = {_quoted(link.to_node)}"]
        is_measured = link.measured_bps > 0 and not link.is_fixed
        capacity = link.measured_bps if is_measured else link.given_bps
        if math.isfinite(capacity):
            lines.append(f"capacity_mbps = {_mbps(capacity)}")
        latency = link.round_trip / 2 if link.round_trip > 0 else link.latency
        if latency > 0:
            lines.append(f"latency_ms = {_figure(latency * 1e3)}")
        if link.price_usd_per_gb > 0:
            lines.append(f"price_usd_per_gb = {link.price_usd_per_gb!r}")
        if link.is_fixed:
            lines.append("fixed = true")
    return "\n".join(lines)


def to_json(links: Sequence["LinkInformation"]) -> dict[str, Any]:
    return {"format": FORMAT, "links": [_link(link) for link in links]}


def _link(link: "LinkInformation") -> dict[str, Any]:
    is_measured = link.measured_bps > 0
    return {
        "from": link.from_node,
        "to": link.to_node,
        "given_mbps": _finite(link.given_bps / 1e6),
        "fixed": link.is_fixed,
        "planned_mbps": _finite(link.planned_bps / 1e6),
        "measured_mbps": link.measured_bps / 1e6 if is_measured else None,
        "probed": link.is_probed if is_measured else None,
        "age_seconds": link.age if is_measured else None,
        "round_trip_ms": link.round_trip * 1e3 if link.round_trip > 0 else None,
        "contradicts": contradicts(link),
        "history": [
            {
                "system_seconds": point.system_seconds,
                "capacity_mbps": point.capacity_bps / 1e6,
                "probed": point.is_probed,
            }
            for point in link.history
        ],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _figure(value: float) -> str:
    digits = max(0, FIGURES - 1 - math.floor(math.log10(value)))
    return f"{round(value, digits)!r}"


def _mbps(bps: float) -> str:
    return _figure(bps / 1e6)


def _quoted(name: str) -> str:
    """A basic string of TOML: JSON's escapes are a part of its own."""
    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
