"""`square run --machines`: nodes on other machines, over ssh. Here that is a server on the loopback."""

import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import ssh_server
from commands import TRIANGLE, square, wait_until
from square.errors import InvalidArgumentError, NotFoundError
from square.run.clocks import Clocks
from square.run.machines import MachinesFile

# Has a shell run the last argument, as the real one has the other machine do.
STAND_IN = """\
#!/bin/sh
for last; do :; done
exec sh -c "$last"
"""


@pytest.fixture(params=["ssh", "a stand-in"])
def there(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """Arguments of ssh that lead to another machine, or to what is as good as one."""
    folder = tmp_path / "there"
    folder.mkdir()
    if request.param == "ssh":
        if ssh_server.PROGRAM is None:
            pytest.skip("no sshd: install openssh-server")
        with ssh_server.running(folder) as arguments:
            yield arguments
        return
    (folder / "ssh").write_text(STAND_IN)
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    yield ["there"]


def _ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def _write(folder: Path, there: list[str], nodes: str = "abc", python: str = sys.executable) -> Path:
    """A file that has these nodes on the loopback, on ports of their own."""
    own, *ports = _ports(1 + len(nodes))
    lines = ["[controller]", 'address = "127.0.0.1"', f"port = {own}"]
    for node, port in zip(nodes, ports, strict=True):
        lines += ["[[machine]]", f'node = "{node}"', f"ssh = {json.dumps(there)}", 'address = "127.0.0.1"']
        lines += [f"port = {port}", f"python = {json.dumps(python)}"]
    file = folder / "machines.toml"
    file.write_text("\n".join(lines))
    return file


def _scenario(folder: Path) -> Path:
    file = folder / "triangle.toml"
    file.write_text(TRIANGLE)
    return file


def _workers() -> list[str]:
    """Those on other machines: no process here is their parent."""
    commands = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"square.run.worker" in words and b"0" in words:
            commands.append(str(file))
    return commands


def test_a_run_on_other_machines(tmp_path: Path, there: list[str]) -> None:
    file = _write(tmp_path, there)
    done = square("run", _scenario(tmp_path), "--machines", file, "--compare", "square,exact", "--json")
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["network"]["mode"] == "machines"
    for policy in outcome["runs"]:
        for collective in policy["collectives"]:
            # By clocks that are compared over ssh: no member is done before it began, nor long after.
            assert all(0 < seconds < 30 for seconds in collective["finished_seconds"].values())
    assert wait_until(lambda: not _workers(), 5)


def test_what_is_wrong_there_is_said_with_the_node(tmp_path: Path, there: list[str]) -> None:
    scenario = _scenario(tmp_path)
    done = square("run", scenario, "--machines", _write(tmp_path, there, python="/nowhere/python"))
    assert done.returncode != 0
    assert "the process of node" in done.stderr
    assert "/nowhere/python" in done.stderr
    assert wait_until(lambda: not _workers(), 5)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh")
def test_a_machine_that_nobody_reaches(tmp_path: Path) -> None:
    file = _write(tmp_path, ["-p", "1", "127.0.0.1"])
    done = square("run", _scenario(tmp_path), "--machines", file)
    assert done.returncode != 0
    assert "the process of node" in done.stderr
    assert "connect to host 127.0.0.1 port 1" in done.stderr


def test_what_cannot_be_run_is_refused_first(tmp_path: Path) -> None:
    scenario = _scenario(tmp_path)
    file = _write(tmp_path, ["nobody@nowhere.invalid"], nodes="ab")
    done = square("run", scenario, "--machines", file)
    assert (done.returncode != 0, "no machine is named for c" in done.stderr) == (True, True)
    done = square("run", scenario, "--machines", file, "--input", scenario)
    assert "--input is a file of this machine" in done.stderr
    done = square("bench", "3c", "--machines", file, "--into", tmp_path / "into")
    assert "no machine is named for Frankfurt" in done.stderr


MACHINE = '[[machine]]\nnode = "a"\nssh = "there"\naddress = "10.0.0.1"\n'
CONTROLLER = '[controller]\naddress = "10.0.0.9"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "[controller] is missing"),
        (CONTROLLER, "at least one [[machine]]"),
        ("[controller]\nport = 1\n" + MACHINE, "[controller]: `address` is missing"),
        (CONTROLLER + MACHINE + MACHINE, "node a is on two machines"),
        (CONTROLLER + MACHINE + "port = 70000", "machine 0: `port` is a number from 1 to 65535"),
        (CONTROLLER + MACHINE + "user = 1", "unknown key `user`; there are address, node, port, python, ssh"),
        (CONTROLLER + MACHINE.replace('"there"', "[]"), "machine 0: `ssh` is a destination"),
        (CONTROLLER + MACHINE.replace('node = "a"\n', ""), "machine 0: `node` is missing"),
        ("[controller", "Expected ']'"),
    ],
)
def test_a_file_that_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "machines.toml"
    file.write_text(text)
    with pytest.raises(InvalidArgumentError) as error:
        MachinesFile.read(file)
    assert str(file) in str(error.value)
    assert words in str(error.value)


def test_a_file_that_is_right(tmp_path: Path) -> None:
    file = tmp_path / "machines.toml"
    file.write_text(CONTROLLER + MACHINE)
    read = MachinesFile.read(file)
    assert (read.address, read.port) == ("10.0.0.9", 7400)
    command = read.machines["a"].command()
    assert command[0] == "ssh"
    assert command[-2:] == ["there", "python3 -P -m square.run.worker 0"]
    with pytest.raises(NotFoundError):
        MachinesFile.read(tmp_path / "none.toml")


def test_the_quickest_answer_tells_the_time() -> None:
    clocks = Clocks()
    assert clocks.there("a", 5.0) == 5.0
    clocks.note("a", 10.0, 110.9, 11.0)  # it took long to come back
    clocks.note("a", 20.0, 120.1, 20.2)
    clocks.note("a", 30.0, 130.0, 31.0)
    assert clocks.there("a", 5.0) == pytest.approx(105.0)
    assert clocks.here("a", 105.0) == pytest.approx(5.0)
    assert clocks.longest_round_trip == pytest.approx(0.2)
