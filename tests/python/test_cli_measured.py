"""`square topology --measured`: what nodes measured, as a file."""

from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from commands import assert_clear_error, square
from square._core import Topology
from square.cli import measured


@dataclass
class Link:
    """As the library tells of one."""

    from_node: str = "a"
    to_node: str = "b"
    given_bps: float = inf
    planned_bps: float = inf
    measured_bps: float = 0.0
    is_probed: bool = False
    is_fixed: bool = False
    round_trip: float = 0.0
    latency: float = 0.0
    price_usd_per_gb: float = 0.0
    age: float = 0.0
    history: list[object] = field(default_factory=list)


@dataclass
class Node:
    name: str
    egress_bps: float = inf
    ingress_bps: float = inf


def read(tmp_path: Path, *links: Link) -> Topology:
    file = tmp_path / "measured.toml"
    nodes = [Node("a", egress_bps=30e6), Node("b"), Node('the "third" \u00e9')]
    file.write_text(measured.to_toml(nodes, links), encoding="utf-8")
    return Topology.read(str(file))


def test_the_file_has_what_was_measured(tmp_path: Path) -> None:
    topology = read(
        tmp_path,
        Link(measured_bps=19.8765e6, round_trip=0.050, given_bps=100e6),
        Link("b", "a", given_bps=40e6, latency=0.010, price_usd_per_gb=0.02),
        Link("a", 'the "third" \u00e9'),
    )
    assert [node.name for node in topology.nodes] == ["a", "b", 'the "third" \u00e9']
    assert topology.nodes[0].egress_bps == 30e6
    first, second, third = topology.links
    assert (first.capacity_bps, first.latency) == (19.88e6, 0.025)
    assert (second.capacity_bps, second.latency, second.price_usd_per_gb) == (40e6, 0.010, 0.02)
    assert third.capacity_bps == inf


def test_a_fixed_capacity_stays_in_the_file(tmp_path: Path) -> None:
    [link] = read(tmp_path, Link(measured_bps=5e6, given_bps=50e6, is_fixed=True)).links
    assert link.capacity_bps == 50e6


def test_a_topology_that_contradicts_is_told_with_both_figures() -> None:
    link = Link(given_bps=100e6, measured_bps=20e6, planned_bps=20e6)
    assert measured.contradicts(link)
    for words in ("from a to b", "20.0 Mbit/s", "100.0 Mbit/s"):
        assert words in measured.contradiction(link)
    assert not measured.contradicts(Link(given_bps=100e6, measured_bps=95e6))
    assert not measured.contradicts(Link(measured_bps=95e6))
    assert not measured.contradicts(Link(given_bps=100e6))


def test_measured_needs_a_controller() -> None:
    for words, fragment in ((["--measured"], "--controller"), ([], "topology file")):
        wrong = square("topology", *words)
        assert (wrong.returncode, wrong.stdout) == (2, "")
        assert fragment in wrong.stderr
    assert_clear_error(
        square("topology", "--measured", "--controller", "127.0.0.1:1"), "controller at 127.0.0.1:1"
    )
