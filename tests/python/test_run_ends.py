"""However a run ends, it ends cleanly: no process is left, and a message says what happened."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import TRIANGLE, square, start, wait_until, workers_of

# What an end may take: the named bounds of run/processes.py and run/job.py, and some more
# for a busy machine.
END_SECONDS = 8.0


@pytest.fixture
def long_run(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run that would take minutes, at the time when its data flows."""
    file = tmp_path / "triangle.toml"
    file.write_text(TRIANGLE.replace("400_000", "400_000_000"), encoding="utf-8")
    process = start("run", file, "--scale-bytes", "0.5")
    assert process.stderr is not None
    for line in process.stderr:
        if "delivered" in line:
            break
    assert len(workers_of(process.pid)) == 3
    yield process
    process.kill()
    process.communicate()


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code and the rest of what it said; all workers are gone then."""
    begin = time.monotonic()
    output, complaints = process.communicate(timeout=30)
    assert time.monotonic() - begin < END_SECONDS
    assert workers_of(process.pid) == []
    assert output == ""
    assert "Traceback" not in complaints
    return process.returncode, complaints


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(long_run: subprocess.Popen[str], number: signal.Signals) -> None:
    long_run.send_signal(number)
    code, complaints = end(long_run)
    assert code == 128 + number
    assert f"ended by {number.name}" in complaints


def test_a_second_signal_does_not_cut_the_end_short(long_run: subprocess.Popen[str]) -> None:
    long_run.send_signal(signal.SIGINT)
    time.sleep(0.1)
    long_run.send_signal(signal.SIGINT)
    code, _ = end(long_run)
    assert code == 128 + signal.SIGINT


def test_a_killed_worker_ends_it(long_run: subprocess.Popen[str]) -> None:
    victim = workers_of(long_run.pid)[0]
    os.kill(victim, signal.SIGKILL)
    code, complaints = end(long_run)
    assert code == 1
    assert f"process id {victim}" in complaints
    assert "signal 9 (SIGKILL)" in complaints
    assert "of node " in complaints
    assert "policy exact" in complaints


def test_workers_die_with_a_killed_parent(long_run: subprocess.Popen[str]) -> None:
    long_run.kill()
    assert wait_until(lambda: workers_of(long_run.pid) == [], END_SECONDS)


def test_workers_die_even_when_they_are_stopped(long_run: subprocess.Popen[str]) -> None:
    for worker in workers_of(long_run.pid):
        os.kill(worker, signal.SIGSTOP)
    long_run.send_signal(signal.SIGTERM)
    code, _ = end(long_run)
    assert code == 128 + signal.SIGTERM


def test_a_signal_while_it_starts(tmp_path: Path) -> None:
    file = tmp_path / "triangle.toml"
    file.write_text(TRIANGLE, encoding="utf-8")
    process = start("run", file)
    assert wait_until(lambda: workers_of(process.pid) != [], 20)
    process.send_signal(signal.SIGINT)
    code, complaints = end(process)
    assert code == 128 + signal.SIGINT
    assert "ended by SIGINT" in complaints


def test_a_signal_while_it_plans(tmp_path: Path) -> None:
    # Its linear program takes much longer than this test waits.
    names = ", ".join(f'"n{number}"' for number in range(90))
    file = tmp_path / "mesh.toml"
    collectives = "".join(
        f'[[collective]]\ntenant = "t"\nop = "broadcast"\nroot = "n{number}"\nbytes = 1\n'
        for number in range(45)
    )
    policy = '[policy]\nname = "square"\npaths = "shortest:20"\n'
    head = f"{policy}[overlay]\nmesh = [{names}]\ncapacity_mbps = 10\n"
    file.write_text(head + collectives, encoding="utf-8")
    process = start("run", file)
    time.sleep(2.0)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    code, complaints = end(process)
    assert code == 128 + signal.SIGTERM
    assert "planning" in complaints


def test_the_time_limit(tmp_path: Path) -> None:
    file = tmp_path / "triangle.toml"
    file.write_text(TRIANGLE.replace("400_000", "400_000_000"), encoding="utf-8")
    result = square("run", file, "--timeout", "10")
    assert result.returncode == 1
    assert "time limit of 10 s" in result.stderr
    assert "not finished: collective 0 at a, b, c" in result.stderr
    assert "Traceback" not in result.stderr
