"""Coded sessions as a user meets them: planned, explained, run over real links, byte by byte."""

import json

import pytest
import square as package
from commands import assert_clear_error, square

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
    spoilt["sessions"][0]["codes"][0]["sinks"][0]["inverse"] = "none"
    with pytest.raises(package.errors.InvalidArgumentError, match="inverse"):
        package.Plan.from_json(json.dumps(spoilt))


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


def test_mistakes_are_named() -> None:
    assert_clear_error(square("plan", "butterflies"), "butterflies", "butterfly, demo")
    assert_clear_error(square("run", "butterfly", "--policy", "exact:tree"), "exact:tree", '"trees"')
    assert square("plan", "butterfly", "--coding", "some").returncode == 2
    assert_clear_error(square("plan", "demo", "--coding", "off"), "coding")
