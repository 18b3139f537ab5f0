"""Where servers should be."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import square.ps
from square.errors import SquareError

MBPS = 1e6


def hubs(**capacities: tuple[float, ...]) -> square.Topology:
    """Sites without workers, with links to the four that train, in Mbit/s."""
    topology = square.Topology()
    for name in (*capacities, *"abcd"):
        topology.add_node(name)
    for hub, links in capacities.items():
        for worker, capacity in zip("abcd", links, strict=True):
            topology.add_link(worker, hub, capacity * MBPS)
            topology.add_link(hub, worker, capacity * MBPS)
    return topology


EVEN, FAT = (8.0, 8.0, 8.0, 8.0), (12.0, 12.0, 12.0, 0.1)


def test_completion_decides_and_the_papers_score_stands_beside() -> None:
    even, fat = (
        square.ps.place(hubs(hub=links), "abcd", 1_000_000, candidates=["hub"], push="float32")[0]
        for links in (EVEN, FAT)
    )
    assert even.push_seconds == pytest.approx(4.0, rel=1e-6)  # 32 Mbit at 8 Mbit/s
    assert fat.push_seconds == pytest.approx(320.0, rel=1e-6)
    assert (even.score, fat.score) == pytest.approx((32 * MBPS, 36.1 * MBPS))  # the paper would take this one


def test_what_is_planned_goes_round_a_thin_link() -> None:
    found = square.ps.place(hubs(even=EVEN, fat=FAT), "abcd", 1_000_000, candidates=["fat"], push="float32")
    assert found[0].push_seconds < 10  # over the other hub and the other workers


def test_several_sites_share_the_ingress() -> None:
    names = ["x", "y", "a", "b", "c"]
    topology = square.Topology.full_mesh(names, 10 * MBPS)
    one = square.ps.place(topology, "abc", 1_000_000, candidates=["x", "y"])[0]
    both = square.ps.place(topology, "abc", 1_000_000, candidates=["x", "y"], servers=2)[0]
    assert both.sites == ("x", "y")
    assert both.score is None
    assert both.push_seconds < one.push_seconds


def test_a_worker_at_the_servers_site_moves_nothing() -> None:
    topology = square.Topology.full_mesh(["a", "b"], 10 * MBPS)
    found = square.ps.place(topology, ["a"], 1_000_000)
    assert (found[0].sites, found[0].seconds) == (("a",), 0.0)


def test_mistakes_are_named(tmp_path: Path) -> None:
    topology = square.Topology.full_mesh(["a", "b"], 10 * MBPS)
    for workers, servers, expected in (
        (["z"], 1, "no z"),
        ([], 1, "no workers"),
        (["a"], 3, "1 to 2 servers"),
    ):
        with pytest.raises(ValueError, match=expected):
            square.ps.place(topology, workers, 1000, servers=servers)
    with pytest.raises(SquareError):
        square.ps.place(tmp_path / "none.csv", ["a"], 1000)


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "links.csv"
    lines = [f"{one},{other},10" for one in "abc" for other in "abc" if one != other]
    file.write_text("from,to,capacity_mbps\n" + "\n".join(lines) + "\n")
    command = [sys.executable, "-m", "square", "ps", "place", str(file), "--workers", "a,b"]
    ran = subprocess.run([*command, "--parameters", "1000000", "--json"], capture_output=True, check=True)
    assert len(json.loads(ran.stdout)["placements"]) == 3
    wrong = subprocess.run([*command, "--parameters", "10", "--servers", "9"], capture_output=True, text=True)
    assert (wrong.returncode, "1 to 3 servers" in wrong.stderr) == (1, True)
