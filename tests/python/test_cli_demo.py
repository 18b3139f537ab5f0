"""`square demo`: the first thing that a newcomer sees."""

import json

import pytest
from commands import square
from square import cli, plan
from square.cli import bundled, demo
from square.cli import run as run_command

TENANTS = ["alice", "bob", "carol"]


def test_the_bundled_scenario_is_what_the_demo_says() -> None:
    scenario = bundled.scenario("demo")
    topology = scenario.topology
    assert {node.name for node in topology.nodes} == {"Frankfurt", "San Francisco", "Sydney", "London"}
    capacities = {(link.from_node, link.to_node): link.capacity_bps for link in topology.links}
    assert len(capacities) == 12
    assert any(capacities[a, b] != capacities[b, a] for a, b in capacities)
    assert [collective.tenant for collective in scenario.collectives] == TENANTS
    planned = {policy: plan(scenario, policy=policy) for policy in demo.POLICIES}
    # Under a minute in all, and every tenant gains from every other plan.
    assert sum(max(c.completion_seconds for c in p.collectives) for p in planned.values()) < 45
    for baseline in demo.POLICIES[1:]:
        for ours, theirs in zip(planned["square"].collectives, planned[baseline].collectives, strict=True):
            assert theirs.completion_seconds > 1.4 * ours.completion_seconds
    assert planned["square"].jain == pytest.approx(1.0)


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with a tenth of the bytes."""
    scenario = bundled.scenario("demo")
    sizes = [collective.size_bytes // 10 for collective in scenario.collectives]
    monkeypatch.setattr(bundled, "scenario", lambda _: run_command.with_sizes(scenario, sizes))


@pytest.mark.usefixtures("small_demo")
def test_it_explains_compares_and_says_what_is_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo"]) == 0
    shown, progress = capsys.readouterr()
    positions = [
        shown.index(fragment)
        for fragment in (
            "Square demo: four sites",
            "Policy square",
            "Policy shortest-path",
            "Policy mcf",
            "gain over",
            "all 27000000 bytes at 27 destinations verified (sha256)",
            "Next:",
            "square run ",
        )
    ]
    assert positions == sorted(positions)
    assert all(shown.count(tenant) >= 4 for tenant in TENANTS)
    assert "starting 4 nodes" in progress


@pytest.mark.long
def test_all_of_it_as_json() -> None:
    result = square("demo", "--json", timeout=120)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert [run["policy"] for run in document["runs"]] == list(demo.POLICIES)
    assert document["verified"]["destinations"] == 27
    for run in document["runs"]:
        for collective in run["collectives"]:
            assert collective["ratio"] < 1.10
    for baseline in document["comparison"]["baselines"]:
        assert min(baseline["gains"]) > 1.2
