"""The type stub is the one that the extension module gives: `make stubs`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_stub_is_current(tmp_path: Path) -> None:
    fresh = tmp_path / "_core.pyi"
    subprocess.run([sys.executable, str(ROOT / "packaging" / "stubs.py"), str(fresh)], check=True)
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", str(fresh)], check=True, cwd=ROOT)
    assert fresh.read_text() == (ROOT / "python" / "square" / "_core.pyi").read_text(), "run `make stubs`"


USERS_SCRIPT = """
import numpy as np
import square


def run(node: square.Node) -> None:
    with square.Communicator(node, "group", "tenant", ["a"], 0) as group:
        group.all_reduce(np.ones(3))
        group.all_gather(bytearray(3), [bytearray(3)], timeout=2)
        work = group.broadcast(np.ones(3), async_op=True)
        if work is not None:
            work.wait()
        group.send_async(memoryview(b"3"), 1).add_done_callback(lambda: None)
    connected: list[bool] = [one.connected for one in square.list_nodes("host:1")]
    print(connected)
"""


def test_a_users_script_is_typed(tmp_path: Path) -> None:
    """Against the installed package, as a user has it."""
    script = tmp_path / "script.py"
    script.write_text(USERS_SCRIPT)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    script.write_text(USERS_SCRIPT.replace("np.ones(3)", "3"))
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert 'has incompatible type "int"' in done.stdout
