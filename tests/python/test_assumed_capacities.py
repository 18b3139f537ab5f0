"""Links without a capacity: a plan says what it assumes of them, and shows no percentage of that."""

import json
import re
from pathlib import Path

import pytest
import square as package
from commands import square

UNMEASURED = """
[overlay]
[[overlay.link]]
from = "a"
to = "b"
[[overlay.link]]
from = "b"
to = "a"
capacity_mbps = 80
[policy]
name = "{}"
[[collective]]
tenant = "t"
op = "broadcast"
root = "{}"
bytes = 1_000_000
"""


@pytest.mark.parametrize("policy", ["exact", "square"])
def test_a_plan_says_what_it_assumes_and_shows_no_percentage_of_it(policy: str, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(UNMEASURED.format(policy, "a"), encoding="utf-8")
    said = "1 link has no capacity: planned as if it carried 80.000 Mbit/s."
    for command in (("plan",), ("plan", "--explain", "collective:0"), ("run", "--quiet")):
        shown = square(command[0], file, *command[1:]).stdout
        assert said in shown
        # Of the weight of cuts and of the processors percentages may be.
        assert re.sub(r"100\.0% (of the weight|busy)", "", shown).count("100.0%") == 0
        assert "of its bound" not in shown
    if policy == "exact":
        assert said in square("simulate", file).stdout
        document = json.loads(square("plan", file, "--explain", "0", "--json").stdout)
        assert document["bound_is_assumed"] is True
        assert document["assumed"] == {"links": 1, "capacity_mbps": 80}
    document = json.loads(square("plan", file, "--json").stdout)
    assert document["assumed"] == {"links": 1, "capacity_mbps": 80}
    assert document["collectives"][0]["bound_is_assumed"] is True

    # The bound of the other direction rests on a capacity that is known.
    file.write_text(UNMEASURED.format(policy, "b"), encoding="utf-8")
    shown = square("plan", file).stdout
    assert said in shown
    assert "100.0%" in shown
    assert "Bounds that rest on this" not in shown
    plan = package.plan(file)
    assert (plan.assumed_links, plan.assumed_capacity_bps, plan.assumed_bounds) == (1, 80e6, [])
