"""Runs the `square` command as users do, and looks at what it leaves behind."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

COMMAND = [sys.executable, "-P", "-m", "square"]

# Three nodes; a to c is best by b. The scenarios of the tests are variations of it.
TRIANGLE = """\
[overlay]
capacity_mbps = 40
[[overlay.link]]
from = "a"
to = "b"
[[overlay.link]]
from = "b"
to = "c"
[[overlay.link]]
from = "c"
to = "a"
[[overlay.link]]
from = "b"
to = "a"
[[overlay.link]]
from = "a"
to = "c"
capacity_mbps = 4
[[tenant]]
name = "alice"
weight = 2.0
[[collective]]
tenant = "alice"
op = "broadcast"
root = "a"
bytes = 400_000
[[collective]]
tenant = "bob"
op = "broadcast"
root = "b"
members = ["b", "a"]
bytes = 200_000
"""


def square(
    *arguments: str | Path, timeout: float = 60, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def workers_of(parent: int) -> list[int]:
    """The process ids of `square run`'s workers, also of those whose parent is gone."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"square.run.worker" in words and str(parent).encode() in words:
            found.append(int(entry.name))
    return found


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def assert_clear_error(result: subprocess.CompletedProcess[str], *fragments: str, code: int = 1) -> None:
    """An exit code, a message that says these things, nothing on standard output, no traceback."""
    assert result.returncode == code, f"{result.returncode}\n{result.stdout}{result.stderr}"
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("square: ")
    for fragment in fragments:
        assert fragment in result.stderr
