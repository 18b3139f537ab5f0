"""`square plan` for people: the summary, and why a session has no higher rate."""

import io
import json
import math
import random
import re
from pathlib import Path
from typing import Any

import hand_made_plans as hand_made
import pytest
import square as package
from commands import TRIANGLE, assert_clear_error, square
from square.cli import text
from square.cli.explanation import print_explanation
from square.cli.limits import words
from square.cli.limits.document import to_json
from square.cli.limits.explanation import Explanation, explain
from square.cli.summary import print_plan
from square.errors import InvalidArgumentError, NotFoundError

OPERATIONS = (
    "broadcast",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "all_reduce",
    "scatter",
    "gather",
    "all_to_all",
)
SOUND = ("two_levels", "without_streams", "node_limit", "reduce", "all_reduce", "least_cost", "budget")


def plan_of(document: dict[str, Any]) -> package.Plan:
    return package.Plan.from_json(hand_made.text(document))


def summary_of(document: dict[str, Any]) -> str:
    out = io.StringIO()
    print_plan(plan_of(document), "by hand", text.console_for(out))
    return out.getvalue()


def explained(document: dict[str, Any], what: str) -> Explanation:
    return explain(plan_of(document), what)


def words_of(explanation: Explanation) -> str:
    out = io.StringIO()
    print_explanation(explanation, text.console_for(out))
    return out.getvalue()


def in_one_line(document: str) -> str:
    return re.sub(r"\s+", " ", document)


@pytest.mark.parametrize("name", SOUND)
def test_plans_made_by_hand_are_sound(name: str) -> None:
    """The validator agrees with every figure that the other tests expect."""
    assert package.violations(plan_of(getattr(hand_made, name)())) == []


@pytest.mark.parametrize(
    ("name", "fragments"),
    [
        (
            "two_levels",
            (
                "0-1 limited by 2 links into {c}: 40.000 of 40.000 Mbit/s used",
                "2 limited by link a -> b: 100.000 of 100.000 Mbit/s used",
                "Most loaded links (4 of 4 in use, 3 full)",
                "a b 100.000 100.000 100.0% 2 a c 30.000 30.000 100.0% 1 b c 10.000 10.000 100.0% 1 b a 10",
                "streams 4 in 3 sessions, at most 2 in one",
                "certified gap 0 of lp rates, 0 of rates (the worst of 2 levels)",
            ),
        ),
        (
            "without_streams",
            (
                "Rates only",
                "0-1 limited by 2 links into {c}: 40.000 Mbit/s",
                "lp rate",
                "minimum rate 20.000",
                "total rate 120.000",
                "certified gap 0 of lp rates (the worst",
            ),
        ),
        ("node_limit", ("0 limited by egress limit of a: 30.000 of 30.000 Mbit/s used", "a 30.000 30.000")),
        ("reduce", ("0 limited by 2 links into {a}: 15.000 of 15.000", "reduce to a from b, c")),
        ("all_reduce", ("0 limited by link a -> b: 10.000 of 10.000 Mbit/s used",)),
        (
            "least_cost",
            (
                "0 has the rate that is required",
                "cost 0.4500 USD an hour; no plan with these rates costs less",
            ),
        ),
        ("budget", ("0 limited by the budget: 0.4500 of 0.4500 USD an hour", "the budget is 0.4500")),
    ],
)
def test_summary_says_who_is_limited_by_what(name: str, fragments: tuple[str, ...]) -> None:
    found = in_one_line(summary_of(getattr(hand_made, name)()))
    for fragment in fragments:
        assert fragment in found
    assert ("lp rate" in found.split("Limits")[0]) == (name == "without_streams")


def test_lp_rate_is_shown_where_streams_carry_less() -> None:
    document = hand_made.node_limit()
    document["collectives"][0]["lp_rate_mbps"] = 10.5
    found = in_one_line(summary_of(document))
    assert "lp rate rate bound" in found
    assert "10.500 10.000" in found


def test_streams_of_a_reduce_grow_from_the_root() -> None:
    lines = summary_of(hand_made.reduce()).splitlines()
    at = next(number for number, line in enumerate(lines) if "10.000 Mbit/s, added" in line)
    assert [line.strip("│└├─ ") for line in lines[at + 1 : at + 4]] == ["a", "b", "c"]
    depth = [len(line) - len(line.lstrip("│└├─ ")) for line in lines[at + 1 : at + 4]]
    assert depth == sorted(set(depth))


def test_headroom_and_changes_are_reported() -> None:
    document = hand_made.two_levels(
        headroom={"deviations": 2.0, "nominal_min_rate_mbps": 25.0, "nominal_total_rate_mbps": 150.0},
        changes=[
            {"collective": "0", "kind": "slower", "rate_before_mbps": 30.0, "rate_after_mbps": 20.0},
            {"collective": "2", "kind": "joined", "rate_before_mbps": 0.0, "rate_after_mbps": 80.0},
            {"collective": "7", "kind": "left", "rate_before_mbps": 5.0, "rate_after_mbps": 0.0},
        ],
    )
    found = in_one_line(summary_of(document))
    assert "0 slower 30.000 20.000 2 joined - 80.000 7 left 5.000 -" in found
    assert "headroom 2 standard deviations" in found
    assert "at the price of 20.0% of the minimum rate (25.000 Mbit/s without)" in found
    assert "and 20.0% of the total (150.000)" in found
    assert "No collective changed" in summary_of(hand_made.two_levels(changes=[]))
    assert "plan before" not in summary_of(hand_made.two_levels())


def test_summary_of_many_collectives_is_short() -> None:
    found = summary_of(hand_made.mesh(16, 200))
    assert len(found.splitlines()) < 300
    assert "... and 140 more collectives; --json lists them" in found
    assert "more sessions; --json lists them" in found
    assert "0-199" in found


def test_explanation_adds_up_by_hand() -> None:
    explanation = explained(hand_made.two_levels(), "1")
    (cut,) = explanation.limits.cuts
    assert explanation.is_proven_by_one_cut
    assert cut.into == ["c"]
    assert {link.nodes: link.loads for link in cut.links} == {
        ("a", "c"): pytest.approx({0: 20e6, 1: 10e6}),
        ("b", "c"): pytest.approx({1: 10e6}),
    }
    assert cut.carried_bps == pytest.approx(40e6)
    assert {demand.collective: demand.needs_bps for demand in cut.demands} == pytest.approx(
        {0: 20e6, 1: 20e6}
    )
    found = in_one_line(words_of(explanation))
    for fragment in (
        "session 1: multicast from b to {c}, 20.000 Mbit/s",
        "level 1 of 2: at most 20.000 Mbit/s per unit of weight; collectives 0-1 stop here",
        "Cut 1: 2 links into {c}, 100.0% of the weight",
        "data enters {c}",
        "a c 30.000 30.000 100.0% 0: 20.000, 1: 10.000",
        "b c 10.000 10.000 100.0% 1: 10.000",
        "together 40.000 40.000 100.0% 0: 20.000, 1: 20.000",
        "(40.000 - 20.000) / 1 = 20.000 Mbit/s is all that cut 1 leaves to collective 1",
        "None of the others has more per unit of weight",
    ):
        assert fragment in found
    assert "The proof" not in found


def test_explanation_of_a_later_level_counts_the_earlier_one() -> None:
    explanation = explained(hand_made.two_levels(), "session:2")
    assert explanation.limits.level == 1
    proof = explanation.limits.proof
    assert proof is not None
    assert proof.worth == pytest.approx(100e6)
    assert proof.earlier == pytest.approx(20e6)
    assert proof.bound_bps == pytest.approx(80e6)
    assert "(100.000 - 20.000) / 1 = 80.000 Mbit/s" in words_of(explanation)


def test_explanation_of_a_node_limit_is_the_sum_of_several_cuts() -> None:
    explanation = explained(hand_made.node_limit(), "0")
    assert not explanation.is_proven_by_one_cut
    cuts = explanation.limits.cuts
    assert [cut.into for cut in cuts] == [["b"], ["c"], ["d"]]
    assert cuts[0].node_limits[0].loads == pytest.approx({0: 30e6})
    found = in_one_line(words_of(explanation))
    assert "No cut proves the bound alone" in found
    assert "egress limit of a 30.000 30.000 0.333333 10.000" in found
    assert "So t is at most (10.000 - 0.000) / 1 = 10.000 Mbit/s." in found


def test_explanation_of_a_reduce_names_the_side_that_data_leaves() -> None:
    explanation = explained(hand_made.reduce(), "0")
    found = in_one_line(words_of(explanation))
    assert "session 0: reduce to a from {b, c}" in found
    assert "Cut 1: 2 links into {a}" in found
    assert "data leaves all nodes but {a}" in found
    cut = to_json(explanation)["cuts"][0]
    assert (cut["far_side"], cut["data"]) == (["b", "c"], "leaves")


def test_explanation_of_a_session_that_nothing_holds_back() -> None:
    explanation = explained(hand_made.all_reduce(), "0")
    assert explanation.limits.cuts[0].sessions == [1, 2]
    found = in_one_line(words_of(explanation))
    assert "Session 0 is held back by nothing of its own" in found
    assert "those of sessions 1-2" in found
    assert "(10.000 - 0.000) / 1 = 10.000 Mbit/s" in found
    assert "Nobody else needs it." in found


def test_explanation_of_cost_and_budget() -> None:
    found = in_one_line(words_of(explained(hand_made.least_cost(), "0")))
    assert "every GB pays 0.1 USD" in found
    assert "no plan with these rates costs less than 0.4500" in found
    budget = explained(hand_made.budget(), "0")
    assert not budget.is_proven_by_one_cut
    assert "budget of 0.45 USD/h 2.22222e+07 10.000" in in_one_line(words_of(budget))


def test_explanation_without_streams_shows_capacities_only() -> None:
    explanation = explained(hand_made.without_streams(), "collective:1")
    assert explanation.session is None
    assert explanation.limits.bound_bps == pytest.approx(20e6)
    found = in_one_line(words_of(explanation))
    assert "lp rate 20.000 Mbit/s, bound 20.000" in found
    assert "used" not in found
    assert "load_mbps" not in to_json(explanation)["cuts"][0]["links"][0]


def test_explanation_of_a_policy_without_levels(tmp_path: Path) -> None:
    file = tmp_path / "triangle.toml"
    file.write_text(TRIANGLE, encoding="utf-8")
    plan = package.plan(file, policy="square", paths="shortest:1", shots=1)
    explanation = explain(plan, "0")
    assert explanation.level is None
    assert explanation.limits.proof is None
    assert explanation.limits.reason == "policy"
    # 4 over the direct link, where the ways round carry more: the paths are to blame.
    found = in_one_line(words_of(explanation))
    assert "The rest is out of reach of policy square" in found
    assert explanation.limits.cuts[0].bound_bps == pytest.approx(plan.collectives[0].bound_bps)
    out = io.StringIO()
    print_plan(plan, "triangle", text.console_for(out))
    assert "policy square reaches" in out.getvalue()


def test_explanation_of_what_sends_nothing() -> None:
    document = hand_made.node_limit()
    document["collectives"].append(hand_made.collective(1, 0, 0, [], rate_mbps=None, lp_rate_mbps=None))
    assert "Collective 1 sends nothing" in words_of(explained(document, "collective:1"))
    assert "sends nothing: it has one member" in summary_of(document)


@pytest.mark.parametrize(
    ("limits", "carried", "held_by"),
    [
        ({}, 40, []),
        ({"c": (None, 25)}, 25, [("ingress", "c")]),
        ({"a": (12, None)}, 22, [("egress", "a")]),
        ({"a": (12, None), "c": (None, 25)}, 22, [("egress", "a")]),
        ({"a": (29, None), "c": (None, 25)}, 25, [("ingress", "c")]),
        ({"a": (50, 1), "c": (1, 60)}, 40, []),
    ],
)
def test_a_cut_carries_what_node_limits_leave(
    limits: dict[str, tuple[float | None, float | None]],
    carried: float,
    held_by: list[tuple[str, str]],
) -> None:
    document = hand_made.plan(
        {("a", "c"): 30, ("b", "c"): 10, ("c", "a"): 5},
        [hand_made.collective(0, 10, carried, [0])],
        [hand_made.session(0, 0, ["a", "c"], [(10, [("a", "c")])])],
        limits=limits,
        policy="square",
    )
    document["certificate"]["cuts"] = [{"collective": "0", "source_side": ["a", "b"], "bound_mbps": carried}]
    assert package.violations(plan_of(document)) == []
    explanation = explained(document, "0")
    (cut,) = explanation.limits.cuts
    assert cut.carried_bps == pytest.approx(carried * 1e6)
    assert [(limit.kind, *limit.nodes) for limit in cut.node_limits] == held_by
    assert explanation.is_proven_by_one_cut
    assert f"10.000 of {carried:.3f} Mbit/s used" in summary_of(document)


def test_json_explanation_has_no_figure_that_json_cannot_say() -> None:
    for name in SOUND:
        document = to_json(explained(getattr(hand_made, name)(), "0"))
        assert document["format"] == "square.explanation/1"
        json.dumps(document, allow_nan=False)
    found = to_json(explained(hand_made.two_levels(), "0"))
    assert found["level"] == {"number": 1, "of": 2, "bound_mbps": 20.0, "collectives": ["0", "1"]}
    assert found["cuts"][0]["links"][0]["sessions"] == {"0": 20.0, "1": 10.0}
    assert found["cuts"][0]["bound_mbps"] == pytest.approx(20.0)
    assert found["proof"]["bound_mbps"] == pytest.approx(20.0)


def test_python_programs_can_ask_what_holds_a_session_back() -> None:
    plan = plan_of(hand_made.two_levels())
    limits = package.limits(plan, 1)
    assert (limits.collective, limits.session, limits.reason, limits.level) == (1, 1, "level", 0)
    assert [(held.kind, held.nodes) for held in limits.held_by] == [
        ("link", ("a", "c")),
        ("link", ("b", "c")),
    ]
    assert limits.held_by[0].load_bps == pytest.approx(30e6)
    assert limits.held_by[0].length == pytest.approx(0.5)
    assert not limits.is_held_by_budget
    whole = package.limits(plan, collective=2, max_cuts=0)
    assert (whole.session, whole.cuts, whole.cut_count) == (None, [], 1)
    assert [one.collective for one in package.limits_of_collectives(plan)] == [0, 1, 2]
    assert package.limits(plan_of(hand_made.budget()), 0).is_held_by_budget
    del plan  # what was found keeps what it needs
    assert limits.cuts[0].links[0].nodes == ("a", "c")


def test_limits_of_what_is_not_there_are_refused() -> None:
    plan = plan_of(hand_made.two_levels())
    with pytest.raises(NotFoundError, match="no session 3 among its 3"):
        package.limits(plan, 3)
    with pytest.raises(NotFoundError, match="no collective 9"):
        package.limits(plan, collective=9)
    with pytest.raises(InvalidArgumentError, match="either a session or a collective"):
        package.limits(plan)
    with pytest.raises(InvalidArgumentError, match="either a session or a collective"):
        package.limits(plan, 1, collective=1)


def test_unknown_sessions_are_refused_with_the_ids() -> None:
    plan = plan_of(hand_made.two_levels())
    for what in ("3", "collective:9", "session:4", "a", "", "tenant:1", "-1", "\N{SUPERSCRIPT TWO}"):
        with pytest.raises(NotFoundError, match="sessions: 0-2; collectives, as collective:N: 0-2"):
            explain(plan, what)


def random_scenario(generator: random.Random) -> str:
    count = generator.randint(3, 6)
    names = [f"n{number}" for number in range(count)]
    lines = ["[overlay]", ""]
    for name in names:
        if generator.random() < 0.5:
            limits = (generator.randint(5, 40), generator.randint(5, 40))
            lines += ["[[overlay.node]]", f'name = "{name}"']
            lines += [f"egress_mbps = {limits[0]}", f"ingress_mbps = {limits[1]}"]
    for i, tail in enumerate(names):
        for j, head in enumerate(names):
            if i != j and (abs(i - j) in (1, count - 1) or generator.random() < 0.5):
                lines += ["[[overlay.link]]", f'from = "{tail}"', f'to = "{head}"']
                lines.append(f"capacity_mbps = {generator.randint(1, 20)}")
    lines += ["[policy]", 'name = "exact"']
    for number in range(generator.randint(1, 4)):
        members = generator.sample(names, generator.randint(2, count))
        operation = generator.choice(OPERATIONS)
        lines += ["[[tenant]]", f'name = "t{number}"', f"weight = {generator.randint(1, 3)}"]
        lines += ["[[collective]]", f'tenant = "t{number}"', f'op = "{operation}"', "bytes = 1_000_000"]
        lines.append(f"members = {json.dumps(members)}")
        if operation in ("broadcast", "reduce", "scatter", "gather"):
            lines.append(f'root = "{members[0]}"')
    return "\n".join(lines)


def test_explanations_of_random_plans_add_up(seed: int, tmp_path: Path) -> None:
    """The sums that are printed give the bounds of the plan, which other code proves."""
    generator = random.Random(seed)
    file = tmp_path / "random.toml"
    proven_by_one = 0
    for _ in range(20):
        file.write_text(random_scenario(generator), encoding="utf-8")
        plan = package.plan(file)
        print_plan(plan, "random", text.console_for(io.StringIO()))
        for collective in plan.collectives:
            explanation = explain(plan, f"collective:{collective.id}")
            assert words_of(explanation)
            limits, level = explanation.limits, explanation.level
            assert level is not None
            assert limits.proof is not None
            proven_by_one += explanation.is_proven_by_one_cut
            assert limits.proof.bound_bps == pytest.approx(level.bound_bps, rel=1e-5)
            assert limits.bound_bps == pytest.approx(collective.bound_bps, rel=1e-6)
            for cut in limits.cuts:
                needs = sum(demand.needs_bps for demand in cut.demands)
                load = sum(link.load_bps for link in cut.links)
                assert needs <= load * (1 + 1e-6) + 1.0
                assert needs <= cut.carried_bps * (1 + 1e-6)
                assert cut.bound_bps >= collective.rate_bps * (1 - 1e-6)
    assert proven_by_one > 0


def test_command_explains(tmp_path: Path) -> None:
    file = tmp_path / "triangle.toml"
    file.write_text(TRIANGLE, encoding="utf-8")
    result = square("plan", file, "--policy", "exact", "--explain", "0")
    assert result.returncode == 0, result.stderr
    assert "Cut 1: " in result.stdout
    assert "Mbit/s is all that cut 1 leaves to collective 0" in result.stdout

    output = tmp_path / "why.json"
    command = ("plan", file, "--policy", "square", "--explain", "collective:1")
    result = square(*command, "--json", "--output", output)
    document = json.loads(result.stdout)
    assert document == json.loads(output.read_text(encoding="utf-8"))
    assert (document["collective"], document["session"]) == ("1", None)
    assert math.isclose(document["cuts"][0]["bound_mbps"], document["bound_mbps"], rel_tol=1e-6)

    assert_clear_error(square("plan", file, "--explain", "8"), "no session 8", "sessions: 0-1")
    assert_clear_error(square("plan", file, "--explain", "0", "--frontier", "5"), "--frontier")


def test_sets_and_ids_in_words() -> None:
    assert words.ids([5, 1, 2, 3, 3, 9]) == "1-3, 5, 9"
    assert words.shortened("1, 2, 3, 4", 4) == "1, ..."
    assert words.shortened("0-1000", 4) == "..."
    assert words.braces(["a", "b", "c"], 2) == "{a, b and 1 more}"
    assert words.direction({"a"}, ["a", "b"]) == "into {a}"
    assert words.direction({"a", "b"}, ["a", "b", "c"]) == "out of {c}"
