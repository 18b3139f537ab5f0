"""`square bench` on overlays that change: how rates are made of what was told, and one for real."""

import json
from pathlib import Path

import pytest
from commands import square
from square.bench.live.course import Course, Curve, Meter, Verdict, fairness_at, jain
from square.bench.live.experiments import EXPERIMENTS
from square.bench.live.site import PATTERNS, pattern
from square.bench.results import courses
from square.errors import SquareError
from square.run import namespaces


def test_rates_are_means_over_destinations_between_samples() -> None:
    meter = Meter()
    for tenth in range(41):
        meter.note("b", 100 + tenth / 10, {"t": tenth * 100_000})
        meter.note("c", 100.03 + tenth / 10, {"t": tenth * 300_000, "other": 5})
    assert meter.rate_bps("t", 101.0, 102.0, 2) == pytest.approx(8 * 2e6, rel=0.01)
    points = meter.points("t", 100.0, 104.0, 2)
    assert len(points) == 40
    assert points[-1][0] == pytest.approx(4.0)
    # Nothing came before it began.
    assert points[1][1] < points[4][1] == pytest.approx(8 * 2e6, rel=0.1)
    assert meter.rate_bps("unknown", 101.0, 102.0, 1) == 0


def test_jains_index() -> None:
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([]) == jain([0.0]) == 0


def test_fairness_is_of_those_that_are_planned_then() -> None:
    late = tuple((at / 10, 4e6 if at > 20 else 0.0) for at in range(1, 41))
    curves = [
        Curve("first", tuple((at / 10, 8e6) for at in range(1, 41)), ((0.0, 8e6),)),
        Curve("late", late, ((1.5, 4e6), (3.5, 0.0))),
    ]
    assert fairness_at(curves, 1.0) == pytest.approx(1)
    assert fairness_at(curves, 1.8) == pytest.approx(0.5)  # it is planned and has nothing yet
    assert fairness_at(curves, 3.0) == pytest.approx(1)
    assert fairness_at(curves, 3.8) == pytest.approx(1)  # it has left


def test_verdicts_say_what_was_asked() -> None:
    assert Verdict("x", 0.97, at_least=0.98).holds is False
    assert Verdict("x", 0.97, at_least=0.98).asked() == "at least 0.98: missed"
    assert Verdict("x", 1.5, "s", at_most=2).holds is True
    assert Verdict("x", 1.5, "s", at_most=2).found() == "1.500 s"
    assert Verdict("x", 1.5).holds is None


def test_what_a_broadcast_leaves_in_a_buffer_is_not_what_the_next_brings() -> None:
    seen = [pattern(number, 1000) for number in range(PATTERNS)]
    assert len(set(seen)) == PATTERNS
    assert all(len(one) == 1000 for one in seen)


def test_courses_are_kept(tmp_path: Path) -> None:
    course = Course(
        "relay",
        2,
        True,
        (Curve("t", ((0.1, 5.0),), ((0.0, 6.0),)),),
        ((0.5, "it dies"),),
        (Verdict("x", 1.0, at_least=0.5),),
        17,
        0.25,
    )
    courses(tmp_path).add(course)
    assert list(courses(tmp_path)) == [course]
    assert courses(tmp_path).find(("relay", 2, True)) == course
    assert set(EXPERIMENTS) == {"fairness", "greedy", "fading", "relay", "controller"}


def test_a_relay_dies_and_what_is_left_is_used(tmp_path: Path) -> None:
    """12 s: four processes in namespaces, and what happens to their rates takes its time."""
    try:
        namespaces.check_possible()
    except SquareError as error:
        pytest.skip(str(error))
    result = square("bench", "relay", "--emulate", "netns", "--quick", "--into", tmp_path, "--json")
    assert result.returncode == 0, result.stderr
    (course,) = json.loads(result.stdout)["experiments"]
    (curve,) = course["curves"]
    assert [what for _, what in course["marks"]] == ["r0 dies"]
    assert course["verified_bytes"] > 1 << 20
    death = course["marks"][0][0]
    # On a busy machine the first sample is taken before there is a plan.
    before = [rate for at, rate in curve["planned"] if at < death][-1]
    after = curve["planned"][-1][1]
    assert 25e6 < after < before < 70e6
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "One of two relays dies" in page
    assert "rate at the end" in page
    assert "One of two relays dies" in (tmp_path / "relay-1.svg").read_text(encoding="utf-8")
