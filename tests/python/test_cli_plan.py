"""`square plan`, `square check` and `square.plan`."""

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest
import square as package
from commands import TRIANGLE, assert_clear_error, square

DEMO = Path(str(resources.files("square"))) / "scenarios" / "demo.toml"


@pytest.fixture
def triangle(tmp_path: Path) -> Path:
    file = tmp_path / "triangle.toml"
    file.write_text(TRIANGLE, encoding="utf-8")
    return file


def test_summary_shows_what_matters() -> None:
    result = square("plan", DEMO)
    assert result.returncode == 0, result.stderr
    for fragment in (
        "4 nodes, 12 links, 3 collectives, planned by square",
        "Tenants",
        "alice",
        "rate/",
        "multicast from Frankfurt to ",
        "└── ",
        "Most loaded links",
        "minimum rate",
        "total rate",
        "Jain's index",
        "level bound",
    ):
        assert fragment in result.stdout
    assert result.stderr == ""


def test_json_is_the_plan_and_sound(tmp_path: Path) -> None:
    output = tmp_path / "plan.json"
    result = square("plan", DEMO, "--json", "--output", output)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["format"] == "square.plan/1"
    assert [collective["tenant"] for collective in document["collectives"]] == ["alice", "bob", "carol"]
    assert json.loads(output.read_text(encoding="utf-8"))["sessions"] == document["sessions"]

    checked = square("check", output)
    assert checked.returncode == 0
    assert checked.stdout.startswith("sound: 3 collectives, 3 sessions, ")


def test_check_names_what_is_wrong(tmp_path: Path, triangle: Path) -> None:
    document = json.loads(square("plan", triangle, "--json").stdout)
    document["links"][0]["capacity_mbps"] = 1.0
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    result = square("check", file)
    assert result.returncode == 1
    assert result.stdout.strip()
    assert "Traceback" not in result.stderr


def test_check_of_what_is_no_plan(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"format": "square.run/1"}', encoding="utf-8")
    assert_clear_error(square("check", file), "format")
    assert_clear_error(square("check", tmp_path / "none.json"), "none.json", "no such file")


def test_options_replace_the_scenario_s_policy(triangle: Path) -> None:
    options = ("--policy", "mcf", "--shots", "2", "--paths", "widest:2", "--fairness", "tenant")
    document = json.loads(square("plan", triangle, "--json", *options).stdout)
    assert document["policy"] == "mcf"
    assert {session["kind"] for session in document["sessions"]} == {"unicast"}


def test_plan_in_python_agrees_with_the_command(triangle: Path) -> None:
    document = json.loads(square("plan", triangle, "--json").stdout)
    plan = package.plan(triangle)
    assert plan.min_rate_bps / 1e6 == pytest.approx(document["min_rate_mbps"])
    package.validate(plan)
    assert package.violations(plan) == []


def test_plan_in_python_leaves_the_scenario_alone(triangle: Path) -> None:
    scenario = package.Scenario.read(str(triangle))
    assert package.plan(scenario, policy="shortest-path", shots=1).policy == "shortest-path"
    assert package.plan(scenario, policy=package.Policy("mcf")).policy == "mcf"
    assert scenario.policy.name == "square"
    assert scenario.policy.shots == 3


def test_paths_choose_what_a_plan_may_use(triangle: Path) -> None:
    # By hops the thin direct link comes first; the wide way round is ten times as wide.
    shortest = package.plan(triangle, paths="shortest:1", shots=1)
    widest = package.plan(triangle, paths="widest:1", shots=1)
    assert shortest.collectives[0].rate_bps == pytest.approx(4e6)
    assert widest.collectives[0].rate_bps > 20e6


def test_a_plan_without_collectives_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text('[overlay]\nmesh = ["a", "b"]\n', encoding="utf-8")
    result = square("plan", file)
    assert result.returncode == 0, result.stderr
    assert "nothing is sent" in result.stdout


def test_large_plans_are_cut_short(data_dir: Path, tmp_path: Path) -> None:
    topology = (data_dir / "topology-zoo" / "Arpanet19706.gml").absolute()
    file = tmp_path / "arpanet.toml"
    overlay = f'[overlay]\ntopology = "{topology}"\ncapacity_mbps = {{ mean = 10, stddev = 1, seed = 7 }}\n'
    root = package.Topology.read(str(topology)).nodes[0].name
    collective = f'[[collective]]\ntenant = "t"\nop = "broadcast"\nroot = "{root}"\nbytes = 1000\n'
    file.write_text(overlay + 12 * collective, encoding="utf-8")
    result = square("plan", file, "--paths", "widest:2")
    assert result.returncode == 0, result.stderr
    assert "--json lists them" in result.stdout
    assert len(result.stdout.splitlines()) < 220


def test_version_and_help() -> None:
    assert square("--version").stdout.strip() == f"square {package.__version__}"
    for command in ("demo", "plan", "check", "run", "controller", "node"):
        result = square(command, "--help")
        assert result.returncode == 0
        assert f"example:\n  square {command}" in result.stdout or "example:\n  square plan" in result.stdout


def test_wrong_usage_is_exit_code_2(triangle: Path) -> None:
    for arguments in (
        (),
        ("fly",),
        ("plan",),
        ("plan", triangle, "--shots", "0"),
        ("plan", triangle, "--fairness", "none"),
        ("run", triangle, "--policy", "mcf", "--compare", "mcf"),
        ("run", triangle, "--compare", "mcf,mcf"),
        ("run", triangle, "--timeout", "nan"),
    ):
        result = square(*arguments)
        assert result.returncode == 2, arguments
        assert result.stderr.startswith("usage: square")
        assert "Traceback" not in result.stderr


def test_output_that_cannot_be_written(triangle: Path, tmp_path: Path) -> None:
    assert_clear_error(square("plan", triangle, "--output", tmp_path), "directory")
    assert_clear_error(square("run", triangle, "--output", tmp_path / "none" / "x.json"), "no such directory")


def test_a_reader_that_goes_away_is_no_error_of_ours() -> None:
    command = f"{sys.executable} -P -m square plan {DEMO} --json | head -c 1"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert result.stdout == "{"
    assert "Traceback" not in result.stderr
    assert "BrokenPipe" not in result.stderr


def test_the_command_starts_without_rich() -> None:
    code = "import square.cli, sys; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False, timeout=60).returncode == 0
