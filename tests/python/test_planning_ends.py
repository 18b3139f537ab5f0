"""Plans that are interrupted, run out of time, or are made at once."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import square as package
from commands import square

SITES = [f"n{number:02}" for number in range(40)]

INTERRUPTED = """
import os, signal, sys, threading, time, square
large = square.Scenario.read(sys.argv[2])
how = {
    "plan": lambda: square.plan(large),
    "planner": lambda: square.Planner().plan(large),
    "frontier": lambda: square.frontier(large, 5),
}[sys.argv[1]]
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    how()
except KeyboardInterrupt:
    print("interrupted after", round(time.monotonic() - start, 1))
"""


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A planned all-reduce of 39 of 40 sites, over trees through the last one too: minutes of planning."""
    links = [f'[[overlay.link]]\nfrom = "{a}"\nto = "{b}"' for a in SITES for b in SITES if a != b]
    overlay = "[overlay]\ncapacity_mbps = { mean = 10, stddev = 1, seed = 7 }"
    members = ", ".join(f'"{site}"' for site in SITES[:-1])
    collective = (
        f'[[collective]]\ntenant = "alice"\nop = "all_reduce"\nmembers = [{members}]\nbytes = 1_000_000_000'
    )
    file = tmp_path / "large.toml"
    file.write_text("\n".join([overlay, *links, collective, ""]), encoding="utf-8")
    return file


@pytest.mark.parametrize("how", ["plan", "planner", "frontier"])
def test_ctrl_c_ends_planning(large: Path, how: str) -> None:
    command = [sys.executable, "-P", "-c", INTERRUPTED, how, str(large)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr
    words = finished.stdout.split()
    assert words[:2] == ["interrupted", "after"]
    assert float(words[2]) < 3.0


def test_ctrl_c_ends_the_command(large: Path) -> None:
    command = [sys.executable, "-P", "-m", "square", "plan", str(large)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            time.sleep(2.0)
            assert running.poll() is None
            running.send_signal(signal.SIGINT)
            _, said = running.communicate(timeout=10)
        finally:
            running.kill()  # it would plan for minutes, and be waited for
    assert running.returncode == 128 + signal.SIGINT
    assert "interrupted" in said


def test_a_timeout_says_what_was_done_and_the_planner_goes_on(large: Path) -> None:
    planner = package.Planner()
    with pytest.raises(TimeoutError, match="ran out of time while"):
        planner.plan(package.Scenario.read(large), timeout=0.3)
    with pytest.raises(TimeoutError, match="ran out of time while"):
        package.plan(large, timeout=0.3)
    small = package.Scenario(package.Topology.full_mesh(["a", "b"], capacity_bps=1e7))
    small.add_collective(package.Collective("t", "broadcast", "a", size_bytes=10))
    assert planner.plan(small).min_rate_bps == pytest.approx(1e7)


def test_a_quick_plan_is_sound_and_says_what_it_is(large: Path) -> None:
    plan = package.quick_plan(large)
    assert plan.provisional
    assert package.violations(plan) == []
    assert plan.min_rate_bps > 0


def test_the_command_prints_a_quick_plan_after_its_timeout(large: Path) -> None:
    result = square("plan", large, "--timeout", "0.5")
    assert result.returncode == 0, result.stderr
    assert "ran out of time" in result.stderr
    assert "a quick plan instead" in result.stderr
    assert "A quick plan: it fits" in result.stdout
    rates = square("plan", large, "--timeout", "0.5", "--rates-only")
    assert rates.returncode == 1
    assert "ran out of time" in rates.stderr


def test_other_threads_run_while_one_plans(large: Path) -> None:
    ticks = 0
    over = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not over.wait(0.01):
            ticks += 1

    counter = threading.Thread(target=count)
    counter.start()
    with pytest.raises(TimeoutError):
        package.plan(large, timeout=0.5)
    over.set()
    counter.join()
    assert ticks > 5
