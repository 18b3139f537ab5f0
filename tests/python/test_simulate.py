"""`square simulate` and `square.simulate`: plans in virtual time."""

import json
from pathlib import Path

import pytest
import square
from commands import square as command
from square.bench import FIGURES, Size, measure
from square.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
)
from square.run.progress import Silence

EXAMPLES = Path(__file__).parents[2] / "examples"


def mesh(*collectives: square.Collective) -> square.Scenario:
    topology = square.Topology.full_mesh(["a", "b", "c", "d"])
    topology.draw_capacities(10e6, 1e6, 1)
    policy = square.Policy("exact", fairness="collective")
    return square.Scenario(topology, policy, collectives=list(collectives))


def test_collectives_take_about_as_long_as_planned_and_the_same_each_time() -> None:
    scenario = mesh(
        square.Collective("one", root="a", size_bytes=1_000_000),
        square.Collective("two", "all_reduce", size_bytes=1_000_000),
        square.Collective("three", "all_reduce", size_bytes=1_000_000, algorithm="ring"),
    )
    plan = square.plan(scenario)
    seconds = square.simulate(scenario, plan, seed=3)
    for simulated, planned in zip(seconds, plan.collectives, strict=True):
        assert 0.9 * planned.completion_seconds < simulated < 1.2 * planned.completion_seconds
    assert square.simulate(scenario, seed=3) == seconds


def test_what_cannot_be_simulated_says_why() -> None:
    small = mesh(square.Collective("one", root="a", size_bytes=1_000_000))
    other = mesh(square.Collective("one", root="a", size_bytes=2_000_000))
    with pytest.raises(InvalidArgumentError, match="as the scenario has it"):
        square.simulate(other, square.plan(small))
    with pytest.raises(FailedPreconditionError, match="with streams"):
        square.simulate(small, square.plan(small, streams=False))
    large = mesh(square.Collective("one", root="a", size_bytes=3 << 30))
    with pytest.raises(ResourceExhaustedError, match="scale the sizes down"):
        square.simulate(large)
    with pytest.raises(DeadlineExceededError):
        square.simulate(mesh(square.Collective("one", root="a", size_bytes=50_000_000)), timeout=0.05)
    with pytest.raises(NotFoundError):
        square.simulate("nowhere.toml")


def test_the_command_prints_a_table_and_a_document(tmp_path: Path) -> None:
    shown = command("simulate", "demo", "--scale-bytes", "0.1")
    assert shown.returncode == 0, shown.stderr
    assert "in virtual time" in shown.stdout
    file = tmp_path / "simulated.json"
    printed = command("simulate", EXAMPLES / "abilene.toml", "--seed", "2", "--json", "--output", file)
    assert printed.returncode == 0, printed.stderr
    document = json.loads(printed.stdout)
    assert document == json.loads(file.read_text(encoding="utf-8"))
    assert document["format"] == "square.simulation/1"
    assert all(0.5 < one["ratio"] < 1.2 for one in document["collectives"])
    wrong = command("simulate", "demo", "--policy", "best")
    assert wrong.returncode == 1
    assert "best" in wrong.stderr


@pytest.mark.parametrize(
    ("op", "algorithm"),
    [("broadcast", None), ("reduce", None), ("all_reduce", "planned"), ("all_reduce", "ring")],
)
def test_nothing_takes_a_moment(op: str, algorithm: str | None) -> None:
    """Of no bytes a collective still tells its members that all have called it."""
    topology = square.Topology.full_mesh(["a", "b", "c"])
    topology.draw_capacities(10e6, 1e6, 1)
    root = None if op == "all_reduce" else "a"
    wish = square.Collective("tenant", op, root=root, size_bytes=0, algorithm=algorithm or "planned")
    scenario = square.Scenario(topology, square.Policy("exact"), collectives=[wish])
    (seconds,) = square.simulate(scenario, square.plan(scenario))
    assert 0 < seconds < 0.1


def test_the_figures_of_the_paper_in_virtual_time(tmp_path: Path) -> None:
    point = next(FIGURES["2a"].points(Size(seeds=1, scale_bytes=0.2)))
    for one in measure(point, point.lines, "simulation", Silence()):
        assert one.ratio is not None
        assert 0.9 < one.ratio < 1.35
    both = command("bench", "2a", "--simulate", "--emulate", "pace", "--into", tmp_path)
    assert both.returncode == 2
    ran = command("bench", "3c", "--simulate", "--quick", "--scale-bytes", "0.002", "--into", tmp_path)
    assert ran.returncode == 0, ran.stderr
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert all(cell["ratio"] is not None for cell in document["figures"]["3c"]["cells"])
