"""`square plan`, `square check` and `square.plan`."""

import json
import os
import pty
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


PRICES = TRIANGLE.replace("capacity_mbps = 40", "capacity_mbps = 40\ncapacity_stddev_mbps = 1").replace(
    'from = "', 'price_usd_per_gb = 0.02\nlatency_ms = 10\nfrom = "'
)


@pytest.fixture
def priced(tmp_path: Path) -> Path:
    """The triangle with prices, latencies and standard deviations; only a broadcasts."""
    file = tmp_path / "priced.toml"
    head, _, _ = PRICES.rpartition("[[collective]]")
    file.write_text(head, encoding="utf-8")
    return file


def exact(file: Path, *options: str) -> dict[str, float]:
    """The rate and the cost of what `square plan --policy exact` prints."""
    result = square("plan", file, "--policy", "exact", "--json", *options)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    document = json.loads(result.stdout)
    assert document["policy"] == "exact"
    return {"rate": document["min_rate_mbps"], "cost": document["cost_usd_per_hour"]}


def test_exact_options_replace_the_scenario_s_policy(priced: Path) -> None:
    # All of it goes over the link from a to b, 40; c has it from b, or 4 of it from a.
    assert exact(priced)["rate"] == pytest.approx(40, rel=1e-5)
    assert exact(priced, "--headroom", "2")["rate"] == pytest.approx(38, rel=1e-5)
    assert exact(priced, "--avoid-node", "b")["rate"] == pytest.approx(4, rel=1e-5)
    assert exact(priced, "--avoid-link", "b", "c")["rate"] == pytest.approx(4, rel=1e-5)
    several = ("--gap", "0.01", "--deadline", "30", "--max-streams", "1", "--fairness", "tenant")
    assert exact(priced, *several)["rate"] == pytest.approx(40, rel=0.02)
    # Both trees have two links, 0.02 USD for 1 GB each.
    per_mbit = 3600 / 8000 * 0.02 * 2
    bought = exact(priced, "--objective", "fair", "--budget", str(10 * per_mbit))
    assert bought["rate"] == pytest.approx(10, rel=1e-3)
    assert bought["cost"] <= 10 * per_mbit * (1 + 1e-6)


def test_exact_options_that_make_no_sense(priced: Path) -> None:
    for options, fragments in (
        (("--policy", "exat"), ("unknown policy", "exat", "exact")),
        (
            ("--policy", "square", "--headroom", "1"),
            ('the policy "square" knows no headroom: choose "exact"',),
        ),
        (("--policy", "exact", "--avoid-node", "z"), ('no node "z"',)),
        (("--policy", "exact", "--avoid-link", "c", "b"), ('no link from "c" to "b"',)),
        (("--policy", "exact", "--objective", "cost"), ("collective 0", "required rate")),
        (("--policy", "exact", "--frontier", "1"), ("2",)),
        (("--policy", "square", "--frontier", "3"), ("exact",)),
        (("--policy", "square", "--rates-only"), ('policy "square"', 'choose "exact"')),
    ):
        assert_clear_error(square("plan", priced, *options), *fragments)


def test_rates_only(priced: Path) -> None:
    result = square("plan", priced, "--policy", "exact", "--rates-only", "--json")
    assert result.returncode == 0, result.stderr
    (session,) = json.loads(result.stdout)["sessions"]
    assert session["streams"] == []
    assert session["lp_rate_mbps"] == pytest.approx(40, rel=1e-5)


def test_the_frontier_is_a_table_or_a_document(priced: Path, tmp_path: Path) -> None:
    output = tmp_path / "frontier.json"
    command = ("plan", priced, "--policy", "exact", "--frontier", "4")
    printed = square(*command)
    assert printed.returncode == 0, printed.stderr
    assert "scenario priced: what rate costs" in printed.stdout
    assert "USD/h" in printed.stdout
    assert len(printed.stdout.splitlines()) == 9  # a title, two lines of heads, a rule, four points
    result = square(*command, "--json", "--output", output)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["format"] == "square.frontier/1"
    assert document["scenario"] == "priced"
    assert len(document["points"]) == 4
    assert json.loads(output.read_text(encoding="utf-8")) == document
    last = document["points"][-1]
    assert last["level_mbps"] == pytest.approx(20, rel=1e-3)  # alice has a weight of 2
    assert last["cost_bound_usd_per_hour"] <= last["cost_usd_per_hour"] * (1 + 1e-9)


def test_somebody_who_watches_a_terminal_sees_that_it_goes_on() -> None:
    code = (
        "import time; from square.cli import waiting; waiting.PATIENCE_SECONDS = 0.0\n"
        "with waiting.Waiting('planning'): time.sleep(0.3)\n"
        "print('done')"
    )
    main, child = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, stderr=child
    ) as watched:
        assert watched.communicate(timeout=30)[0] == b"done\n"
    os.close(child)
    shown = os.read(main, 4096).decode()
    os.close(main)
    assert "planning, 0 s" in shown
    assert shown.endswith("\r\x1b[K")
    piped = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=True, timeout=30)
    assert piped.stderr == b""


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
    assert scenario.policy.name == "exact"
    assert scenario.policy.shots == 3


def test_paths_choose_what_a_plan_may_use(triangle: Path) -> None:
    # By hops the thin direct link comes first; the wide way round is ten times as wide.
    shortest = package.plan(triangle, policy="square", paths="shortest:1", shots=1)
    widest = package.plan(triangle, policy="square", paths="widest:1", shots=1)
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
    result = square("plan", file)
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
        ("plan", triangle, "--objective", "cheap"),
        ("plan", triangle, "--gap", "1"),
        ("plan", triangle, "--gap", "-0.1"),
        ("plan", triangle, "--gap", "nan"),
        ("plan", triangle, "--deadline", "0"),
        ("plan", triangle, "--deadline", "inf"),
        ("plan", triangle, "--max-streams", "0"),
        ("plan", triangle, "--budget", "-1"),
        ("plan", triangle, "--headroom", "-1"),
        ("plan", triangle, "--headroom", "nan"),
        ("plan", triangle, "--avoid-link", "a"),
        ("plan", triangle, "--frontier", "x"),
        ("plan", triangle, "--frontier", "3", "--rates-only"),
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


def test_output_leaves_links_and_pipes_where_they_are(triangle: Path, tmp_path: Path) -> None:
    file, link, pipe = tmp_path / "plan.json", tmp_path / "link.json", tmp_path / "pipe"
    link.symlink_to(file)
    assert square("plan", triangle, "--output", link).returncode == 0
    assert link.is_symlink()
    assert json.loads(file.read_text(encoding="utf-8"))["format"] == "square.plan/1"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        assert square("plan", triangle, "--output", pipe).returncode == 0
        assert json.loads(reader.communicate(timeout=30)[0])["format"] == "square.plan/1"
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "link.json",
        "pipe",
        "plan.json",
        "triangle.toml",
    ]


def test_closed_streams_are_no_crash(triangle: Path) -> None:
    command = f"{sys.executable} -P -m square plan "
    for rest, code in ((f"{triangle} >&-", 0), (f"{triangle}.none 2>&-", 1)):
        result = subprocess.run(
            ["sh", "-c", command + rest], capture_output=True, text=True, check=False, timeout=60
        )
        assert (result.returncode, result.stdout, result.stderr) == (code, "", "")


def test_ctrl_c_that_is_ignored_stays_ignored(triangle: Path) -> None:
    # As for what a script starts in the background.
    code = (
        "import signal, sys; from square.cli import main\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "assert main(sys.argv[1:]) == 0\n"
        "assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN"
    )
    command = [sys.executable, "-P", "-c", code, "plan", str(triangle)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr


def test_fair_takes_the_place_of_least_cost(priced: Path) -> None:
    text = priced.read_text(encoding="utf-8")
    policy = '[policy]\nname = "exact"\nobjective = "cost"\n'
    priced.write_text(policy + text + "required_mbps = 10\n", encoding="utf-8")
    assert exact(priced)["rate"] == pytest.approx(10, rel=1e-5)
    assert exact(priced, "--objective", "fair")["rate"] == pytest.approx(40, rel=1e-5)


def test_a_reader_that_goes_away_is_no_error_of_ours() -> None:
    command = f"{sys.executable} -P -m square plan {DEMO} --json | head -c 1"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert result.stdout == "{"
    assert "Traceback" not in result.stderr
    assert "BrokenPipe" not in result.stderr


def test_the_command_starts_without_rich() -> None:
    code = "import square.cli, sys; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False, timeout=60).returncode == 0
