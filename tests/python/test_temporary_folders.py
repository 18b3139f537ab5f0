"""Where /tmp is read-only, as in many containers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SERVE = """
import square
with square.Node("a") as node:
    try:
        print(node.serve_gateway())
    except square.SquareError as error:
        print(type(error).__name__, error)
"""
MAKE_FOLDER = """
import tempfile
import square
from square.temporary import temporary_folder
tempfile._candidate_tempdir_list = lambda: ["/tmp"]  # or else it takes the working folder
try:
    temporary_folder("test-")
except square.SquareError as error:
    print(type(error).__name__, error)
"""


def run(code: str, writable: Path | None) -> str:
    """What the code prints where no other folder than that one can be written to."""
    enter = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"]
    if shutil.which("unshare") is None or subprocess.run([*enter, "true"], check=False).returncode != 0:
        pytest.skip("this system has no mount namespaces for its users")
    script = 'mount -t tmpfs -o ro none /tmp && exec "$@"'
    environment = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    environment["TMPDIR"] = "" if writable is None else str(writable)
    done = subprocess.run(
        [*enter, "bash", "-c", script, "bash", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_gateway_says_which_folders_it_cannot_use() -> None:
    said = run(SERVE, None)
    assert said.startswith("UnavailableError no folder can hold the gateway's socket: ")
    assert "cannot make /tmp/square-" in said
    assert "Read-only file system" in said
    assert "Set XDG_RUNTIME_DIR or TMPDIR to a folder that this user can write to" in said


def test_a_gateway_uses_the_folder_of_tmpdir() -> None:
    folder = Path.cwd() / "build" / "t"  # not of /tmp, and short: a socket's path has 107 bytes at most
    folder.mkdir(parents=True, exist_ok=True)
    try:
        assert run(SERVE, folder).startswith(f"{folder}/square-")
    finally:
        shutil.rmtree(folder)


def test_a_temporary_folder_that_cannot_be_made_says_what_to_set() -> None:
    said = run(MAKE_FOLDER, None)
    assert said.startswith("UnavailableError cannot make a temporary folder: ")
    assert "'/tmp'" in said
    assert "set TMPDIR to a folder that this user can write to" in said
