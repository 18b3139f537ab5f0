"""`square check` and `square.gaps`, on plans written by hand: the checker needs no planner."""

import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import square as package
from commands import COMMAND, assert_clear_error, square

# Coding reaches 2 Mbit/s, these trees 1.5; the links that leave s prove the 2.
LINKS = ["sa", "sb", "ac", "bc", "cd", "ax", "by", "dx", "dy"]
TREES = [["sa", "ax", "ac", "cd", "dy"], ["sb", "by", "bc", "cd", "dx"], ["sa", "sb", "ax", "by"]]
LOADS = {"sa": 1.0, "sb": 1.0, "ac": 0.5, "bc": 0.5, "cd": 1.0, "ax": 1.0, "by": 1.0, "dx": 0.5, "dy": 0.5}
USD_PER_HOUR_PER_MBPS = 3600 / 8e3  # at 1 USD a GB


def _session() -> dict[str, Any]:
    return {
        "id": "0",
        "collective": "7",
        "kind": "multicast",
        "root": "s",
        "members": ["s", "x", "y"],
        "offset_bytes": 0,
        "size_bytes": 1_500_000,
        "pair": None,
        "lp_rate_mbps": 2.0,
        "rate_mbps": 1.5,
        "paths": [
            {"member": way[-1], "nodes": list(way), "rate_mbps": 1.0}
            for way in ("sax", "sbcdx", "sby", "sacdy")
        ],
        "streams": [
            {"links": [list(link) for link in tree], "rate_mbps": 0.5, "coded": False} for tree in TREES
        ],
    }


def butterfly() -> dict[str, Any]:
    cost = LOADS["cd"] * 0.5 * USD_PER_HOUR_PER_MBPS
    return {
        "format": "square.plan/1",
        "epoch": 3,
        "policy": "exact",
        "solve_seconds": 0.01,
        "min_rate_mbps": 1.5,
        "total_rate_mbps": 1.5,
        "jain": 1.0,
        "cost_usd_per_hour": cost,
        "tenants": [{"name": "t", "weight": 1.0, "rate_mbps": 1.5}],
        "certificate": {
            "level_bound_mbps": 2.0,
            "cuts": [],
            "levels": [
                {
                    "bound_mbps": 2.0,
                    "collectives": ["7"],
                    "links": [["s", "a", 1.0], ["s", "b", 1.0]],
                    "egress": [],
                    "ingress": [],
                    "packings": [{"sessions": ["0"], "cuts": [{"far_side": list("abcdxy"), "length": 1.0}]}],
                }
            ],
        },
        "collectives": [
            {
                "id": "7",
                "tenant": "t",
                "op": "broadcast",
                "weight": 1.0,
                "bytes": 1_500_000,
                "lp_rate_mbps": 2.0,
                "rate_mbps": 1.5,
                "bound_mbps": 2.0,
                "completion_seconds": 8.0,
                "cost_usd_per_hour": cost,
                "sessions": ["0"],
            }
        ],
        "sessions": [_session()],
        "nodes": [{"name": name, "egress_mbps": None, "ingress_mbps": None} for name in "sabcdxy"],
        "links": [
            {
                "from": link[0],
                "to": link[1],
                "capacity_mbps": 1.0,
                "load_mbps": LOADS[link],
                "latency_ms": 1.0,
                "price_usd_per_gb": 0.5 if link == "cd" else 0.0,
            }
            for link in LINKS
        ],
    }


def check(document: dict[str, Any], tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    return square("check", file, *options)


def test_a_sound_plan_and_how_good_it_is(tmp_path: Path) -> None:
    result = check(butterfly(), tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "sound: 1 collective, 1 session, 3 streams"
    row = next(line.split() for line in lines if line.startswith("1 "))
    # level, collectives, bound, lp_rate, rate, lp gap, rate gap
    assert row == ["1", "7", "2.000", "2.000", "1.500", "0.0e+00", "3.3e-01"]
    assert "cost           0.225 USD/hour" in lines


def test_the_example_of_the_documentation_is_sound(repository: Path, tmp_path: Path) -> None:
    text = (repository / "docs" / "plan.md").read_text(encoding="utf-8")
    document = json.loads(text.split("```json\n")[1].split("```")[0])
    result = check(document, tmp_path)
    assert result.returncode == 0, result.stdout
    assert package.Plan.from_json(json.dumps(document)).certificate.levels[0].bound_bps == 5e6


def test_a_plan_without_streams_shows_no_rate_and_no_cost(tmp_path: Path) -> None:
    scenario = tmp_path / "mesh.toml"
    collective = '[[collective]]\ntenant = "t"\nop = "broadcast"\nroot = "a"\nbytes = 8\n'
    overlay = '[policy]\nname = "exact"\n[overlay]\nmesh = ["a", "b"]\ncapacity_mbps = 3\n'
    scenario.write_text(overlay + collective, encoding="utf-8")
    plan = square("plan", scenario, "--rates-only", "--json")
    assert plan.returncode == 0, plan.stderr
    result = check(json.loads(plan.stdout), tmp_path)
    assert result.returncode == 0, result.stdout
    assert result.stdout.startswith("sound: 1 collective, 1 session, 0 streams\n")
    row = next(line.split() for line in result.stdout.splitlines() if line.startswith("1 "))
    assert (row[3], row[4], row[6]) == ("3.000", "-", "-")
    assert "cost" not in result.stdout


def test_standard_input_may_be_a_plan_or_closed(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(butterfly()), encoding="utf-8")
    command = f"{sys.executable} -P -m square check - "
    for redirection, code, said in ((f"< {file}", 0, "sound: "), ("<&-", 1, "standard input: is closed")):
        result = subprocess.run(
            ["sh", "-c", command + redirection], capture_output=True, text=True, check=False, timeout=60
        )
        assert result.returncode == code, result.stderr
        assert said in result.stdout + result.stderr
        assert "Traceback" not in result.stderr


def test_json_has_the_same(tmp_path: Path) -> None:
    result = check(butterfly(), tmp_path, "--json")
    assert result.returncode == 0
    document = json.loads(result.stdout)
    assert document["sound"] is True
    assert document["violations"] == []
    assert document["streams"] == 3
    (level,) = document["levels"]
    assert level["collectives"] == ["7"]
    assert level["bound_mbps"] == pytest.approx(2)
    assert level["lp_gap"] == pytest.approx(0, abs=1e-9)
    assert level["rate_gap"] == pytest.approx(1 / 3)
    assert document["cost_usd_per_hour"] == pytest.approx(0.225)
    assert document["cost_bound_usd_per_hour"] is None


def test_everything_that_is_wrong_is_listed(tmp_path: Path) -> None:
    document = butterfly()
    document["certificate"]["levels"][0]["bound_mbps"] = 1.7
    document["links"][4]["capacity_mbps"] = 0.9
    document["collectives"][0]["completion_seconds"] = 7.0
    document["cost_usd_per_hour"] = 0.1
    document["sessions"][0]["offset_bytes"] = 5
    result = check(document, tmp_path)
    assert result.returncode == 1
    for fragment in (
        "link c -> d: streams put 1 Mbit/s on a capacity of 0.9 Mbit/s",
        "its completion is given as 7 s",
        "the cost is given as 0.1 USD an hour",
        "byte ranges incomplete",
        "level 0: its bound is given as 1.7 Mbit/s, its duals prove 2 Mbit/s",
    ):
        assert fragment in result.stdout
    assert "sound" not in result.stdout
    as_json = check(document, tmp_path, "--json")
    assert as_json.returncode == 1
    findings = json.loads(as_json.stdout)
    assert findings["sound"] is False
    assert findings["violations"] == result.stdout.splitlines()


def test_a_plan_from_standard_input() -> None:
    for document, code in ((json.dumps(butterfly()).encode(), 0), (b"\xff", 1)):
        result = subprocess.run(
            [*COMMAND, "check", "-"], input=document, capture_output=True, check=False, timeout=60
        )
        assert result.returncode == code
        assert b"Traceback" not in result.stderr
    assert b"standard input: cannot be read" in result.stderr


def test_a_bound_on_the_cost(tmp_path: Path) -> None:
    # No level has duals for it: it may be 0 and no more.
    document = butterfly()
    document["certificate"]["cost_bound_usd_per_hour"] = 0.0
    result = check(document, tmp_path)
    assert result.returncode == 0, result.stdout
    assert "cost bound     0 USD/hour  (gap -)" in result.stdout
    document["certificate"]["cost_bound_usd_per_hour"] = 0.1
    assert (
        "the bound on the cost is given as 0.1 USD an hour, its duals prove 0"
        in check(document, tmp_path).stdout
    )


def test_what_cannot_be_read_is_said_with_its_place(tmp_path: Path) -> None:
    document = butterfly()
    document["certificate"]["levels"][0]["packings"][0]["cuts"][0]["far_side"][2] = "lon"
    assert_clear_error(
        check(document, tmp_path), 'certificate.levels[0].packings[0].cuts[0].far_side names "lon"'
    )


def test_gaps_in_python() -> None:
    plan = package.Plan.from_json(json.dumps(butterfly()))
    assert package.violations(plan) == []
    (gap,) = package.gaps(plan)
    assert gap.level == 0
    assert gap.bound_bps == pytest.approx(2e6)
    assert gap.lp_level_bps == pytest.approx(2e6)
    assert gap.rate_level_bps == pytest.approx(1.5e6)
    assert gap.rate_gap == pytest.approx(1 / 3)
    assert repr(plan) == "<Plan exact epoch 3: 1 collective, min 1.5 Mbit/s>"


def test_the_certificate_in_python() -> None:
    document = butterfly()
    document["headroom"] = {"deviations": 2.0, "nominal_min_rate_mbps": 1.6, "nominal_total_rate_mbps": 1.7}
    document["changes"] = [
        {"collective": "7", "kind": "faster", "rate_before_mbps": 1.0, "rate_after_mbps": 1.5}
    ]
    document["budget_usd_per_hour"] = 4.0
    plan = package.Plan.from_json(json.dumps(document))
    (level,) = plan.certificate.levels
    assert level.bound_bps == pytest.approx(2e6)
    assert level.collectives == [7]
    assert level.links == [("s", "a", 1.0), ("s", "b", 1.0)]
    assert (level.egress, level.ingress, level.budget) == ([], [], 0.0)
    (packing,) = level.packings
    assert (packing.session, packing.cuts) == (0, [(list("abcdxy"), 1.0)])
    assert plan.certificate.cost_bound_usd_per_hour is None
    assert plan.realised
    assert plan.cost_usd_per_hour == pytest.approx(0.225)
    assert plan.budget_usd_per_hour == 4.0
    assert plan.collectives[0].lp_rate_bps == pytest.approx(2e6)
    assert plan.collectives[0].cost_usd_per_hour == pytest.approx(0.225)
    assert plan.links[4].price_usd_per_gb == 0.5
    assert plan.headroom is not None
    assert plan.headroom.nominal_min_rate_bps == pytest.approx(1.6e6)
    assert plan.changes is not None
    (change,) = plan.changes
    assert (change.collective, change.kind) == (7, "faster")
    assert (change.rate_before_bps, change.rate_after_bps) == pytest.approx((1e6, 1.5e6))


def test_a_plan_of_the_release_before_is_read(tmp_path: Path) -> None:
    document = deepcopy(butterfly())
    document.pop("cost_usd_per_hour")
    document["certificate"].pop("levels")
    document["certificate"]["cuts"] = [{"collective": "7", "source_side": ["s"], "bound_mbps": 2.0}]
    for collective in document["collectives"]:
        collective.pop("lp_rate_mbps")
        collective.pop("cost_usd_per_hour")
    for link in document["links"]:
        link.pop("price_usd_per_gb")
    result = check(document, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == "sound: 1 collective, 1 session, 3 streams\n"
    plan = package.Plan.from_json(json.dumps(document))
    assert plan.collectives[0].lp_rate_bps == plan.collectives[0].rate_bps
    assert package.gaps(plan) == []
