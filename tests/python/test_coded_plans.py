"""Coded sessions as a user meets them: planned, explained, run over real links, byte by byte."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import square as package
from commands import assert_clear_error, square
from groups import outcomes_of
from square.cli import bundled
from square.planning import with_policy

MBPS = 1e6


def test_the_butterfly_is_explained() -> None:
    result = square("plan", "butterfly", "--explain", "0")
    assert result.returncode == 0, result.stderr
    for fragment in ("Code 0: generations of 2 blocks over gf256, 40.000", "(a) + (b)", "a + b", "a, a + b"):
        assert fragment in result.stdout
    summary = square("plan", "butterfly").stdout
    assert "carries a + b of code 0" in summary
    assert "40.000 Mbit/s in 3 streams" in summary


def test_a_plan_without_codes() -> None:
    plan = json.loads(square("plan", "butterfly", "--coding", "off", "--json").stdout)
    (session,) = plan["sessions"]
    assert session["rate_mbps"] == pytest.approx(30)
    assert "codes" not in session
    assert not any(stream["coded"] for stream in session["streams"])


def test_a_coded_plan_is_sound_and_comes_back_from_json() -> None:
    result = square("plan", "butterfly", "--json")
    plan = package.Plan.from_json(result.stdout)
    assert package.violations(plan) == []
    assert json.loads(plan.to_json()) == json.loads(result.stdout)
    spoilt = json.loads(result.stdout)
    spoilt["sessions"][0]["codes"][0]["sinks"][0]["inverse"][0][0] += 1
    assert any(
        "cannot solve" in words for words in package.violations(package.Plan.from_json(json.dumps(spoilt)))
    )
    spoilt["sessions"][0]["codes"][0]["sinks"][0]["inverse"][0][0] = 0.5
    assert any(
        "has no inverse of 2 rows of gf256" in words
        for words in package.violations(package.Plan.from_json(json.dumps(spoilt)))
    )
    spoilt["sessions"][0]["codes"][0]["sinks"][0]["inverse"] = "none"
    with pytest.raises(package.errors.InvalidArgumentError, match="inverse"):
        package.Plan.from_json(json.dumps(spoilt))


def test_a_code_of_floats_has_one_over_bytes_beside_it() -> None:
    text = square("plan", "butterfly", "--coding", "float32", "--json").stdout
    plan = package.Plan.from_json(text)
    assert package.violations(plan) == []
    assert json.loads(plan.to_json()) == json.loads(text)
    (session,) = plan.sessions
    assert [code.field for code in session.codes] == ["float32"]
    assert all(stream.byte_row for stream in session.streams if stream.coded)
    sums = [stream for stream in session.streams if stream.adds]
    assert [len(stream.byte_factors) for stream in sums] == [2]
    spoilt = json.loads(text)
    spoilt["sessions"][0]["codes"][0]["sinks"][0]["byte_inverse"][0][0] = 7
    assert any(
        "over bytes" in words and "cannot solve" in words
        for words in package.violations(package.Plan.from_json(json.dumps(spoilt)))
    )


def test_the_butterfly_runs_with_and_without_a_code() -> None:
    """Seven processes over loopback, each pair of rates as planned; every byte is compared."""
    result = square(
        "run", "butterfly", "--compare", "exact,exact:trees", "--scale-bytes", "0.25", "--json", "--quiet"
    )
    assert result.returncode == 0, result.stderr
    coded, trees = json.loads(result.stdout)["runs"]
    assert (coded["policy"], trees["policy"]) == ("exact", "exact:trees")
    planned = [run["collectives"][0]["planned_rate_mbps"] for run in (coded, trees)]
    assert planned == pytest.approx([40.0, 30.0])


@pytest.fixture
def over_floats() -> Iterator[tuple[package.Controller, dict[str, package.Node]]]:
    """The butterfly's seven nodes over loopback, under a policy that codes floats as numbers."""
    topology = bundled.scenario("butterfly").topology
    names = [node.name for node in topology.nodes]
    scenario = with_policy(package.Scenario(topology, name="floats"), policy="exact", coding="float32")
    with ExitStack() as stack:
        controller = stack.enter_context(package.Controller(scenario))
        nodes = {name: stack.enter_context(package.Node(name, controller.address)) for name in names}
        controller.wait_for_nodes(names, 10)
        yield controller, nodes


def test_a_group_s_floats_are_coded_as_numbers_and_all_else_as_bytes(over_floats: Any) -> None:
    controller, nodes = over_floats
    chance = np.random.default_rng(7)
    floats = chance.uniform(-1, 1, 1_000_000).astype("float32")
    odd = floats.copy()
    odd[::1000] = np.nan
    whole = chance.integers(-(2**62), 2**62, 400_000)

    def member(joined: package.Communicator, rank: int) -> list[np.ndarray]:
        received = []
        joined.broadcast(np.zeros(1000, "float32"), root=0)
        deadline = time.monotonic() + 20
        while not any(session.codes for session in controller.plan().sessions):
            assert time.monotonic() < deadline, "no plan with a code"
            time.sleep(0.05)
        for sent in (floats, odd, whole):
            data = sent.copy() if rank == 0 else np.zeros_like(sent)
            joined.broadcast(data, root=0)
            received.append(data)
        return received

    for got in outcomes_of(nodes, ["source", "east", "west"], member)[1:]:
        near, exact, numbers = got
        assert np.abs(near - floats).max() < 1e-6
        assert near.tobytes() != floats.tobytes(), "nothing was coded"
        assert exact.tobytes() == odd.tobytes()
        assert numbers.tobytes() == whole.tobytes()


def test_mistakes_are_named() -> None:
    assert_clear_error(square("plan", "butterflies"), "butterflies", "butterfly, demo")
    assert_clear_error(square("run", "butterfly", "--policy", "exact:tree"), "exact:tree", '"trees"')
    assert square("plan", "butterfly", "--coding", "some").returncode == 2
    assert_clear_error(square("plan", "demo", "--coding", "off"), "coding")
