"""`square controller` and `square node` as processes, and a program of ours between them."""

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import square as package
from commands import TRIANGLE, assert_clear_error, square, start
from issued import Issued


@pytest.fixture
def triangle(tmp_path: Path) -> Path:
    file = tmp_path / "triangle.toml"
    file.write_text(TRIANGLE, encoding="utf-8")
    return file


@contextmanager
def serving(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its first line."""
    process = start(*arguments)
    assert process.stdout is not None
    try:
        line = process.stdout.readline().strip()
        if not line:
            pytest.fail(f"{arguments} said nothing: {process.communicate()[1]}")
        yield process, line
    finally:
        process.kill()
        process.communicate()


def stop(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> str:
    process.send_signal(number)
    _, complaints = process.communicate(timeout=10)
    assert process.returncode == 0, complaints
    assert "Traceback" not in complaints
    return complaints


def test_a_broadcast_through_a_relay_of_its_own(tmp_path: Path) -> None:
    # a and b live here, the relay between them in a process of its own.
    file = tmp_path / "relay.toml"
    link = '[[overlay.link]]\nfrom = "{}"\nto = "{}"\ncapacity_mbps = 80\n'
    collective = (
        '[[collective]]\ntenant = "t"\nop = "broadcast"\nroot = "a"\nmembers = ["a", "b"]\nbytes = 200000\n'
    )
    file.write_text(link.format("a", "relay") + link.format("relay", "b") + collective, encoding="utf-8")
    with (
        serving("controller", file) as (controller, address),
        serving("node", "--name", "relay", "--controller", address, "--window-mib", "8") as (relay, line),
    ):
        assert line.startswith("relay 127.0.0.1:")
        sent, received = bytes(range(200)) * 1000, bytearray(200_000)
        with package.Node("a", address) as a, package.Node("b", address) as b:
            spec = [("broadcast", 0, 200_000, 1.0)]
            source = package.Communicator(a, "collective/0", "t", ["a", "b"], 0, spec, timeout=20)
            destination = package.Communicator(b, "collective/0", "t", ["a", "b"], 1, spec, timeout=20)
            work = destination.broadcast_async(received, root=0, timeout=20)
            source.broadcast(sent, root=0, timeout=20)
            work.wait()
            assert work.is_done
        assert received == sent
        assert "it sent 200000 bytes" in stop(relay)
        complaints = stop(controller)
        for name in ("a", "b", "relay"):
            assert f"node {name} joined" in complaints


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_json_and_signals(triangle: Path, number: signal.Signals) -> None:
    with serving("controller", triangle, "--json") as (controller, line):
        address = json.loads(line)["address"]
        with serving("node", "--name", "a", "--controller", address, "--json") as (node, said):
            assert json.loads(said)["name"] == "a"
            stop(node, number)
        stop(controller, number)


def test_a_node_that_the_overlay_does_not_know(triangle: Path) -> None:
    with serving("controller", triangle) as (_, address):
        assert_clear_error(square("node", "--name", "zurich", "--controller", address), "zurich")


def test_a_second_node_of_one_name(triangle: Path) -> None:
    with (
        serving("controller", triangle) as (_, address),
        serving("node", "--name", "a", "--controller", address),
    ):
        assert_clear_error(square("node", "--name", "a", "--controller", address), "a")


def test_identities(triangle: Path, tmp_path: Path) -> None:
    issued, foreign = Issued(tmp_path / "own"), Issued(tmp_path / "foreign")
    with serving("controller", triangle, "--identity", issued("controller", "c")) as (_, address):
        node = ("node", "--name", "a", "--controller", address)
        assert_clear_error(square(*node), "give an identity")
        assert_clear_error(square(*node, "--identity", foreign("node", "a")), "certificate verify failed")
        assert_clear_error(square(*node, "--identity", issued("node", "b")), "/node/b")
        with serving(*node, "--identity", issued("node", "a")) as (process, _):
            stop(process)


def test_a_controller_without_an_overlay() -> None:
    with (
        serving("controller") as (_, address),
        serving("node", "--name", "x", "--controller", address) as (node, _),
    ):
        stop(node)


def test_a_controller_for_a_topology(tmp_path: Path) -> None:
    file = tmp_path / "links.csv"
    file.write_text("from,to,capacity_mbps\na,b,10\nb,a,10\n", encoding="utf-8")
    with (
        serving("controller", "--topology", file) as (_, address),
        serving("node", "--name", "b", "--controller", address) as (node, _),
    ):
        stop(node)


def test_an_address_in_use(triangle: Path) -> None:
    with serving("controller", triangle) as (_, address):
        assert_clear_error(square("controller", triangle, "--bind", address), address)


def test_messages_of_the_library_reach_logging(triangle: Path, caplog: pytest.LogCaptureFixture) -> None:
    scenario = package.Scenario.read(str(triangle))
    package.log.connect(10)
    joined = threading.Event()
    with caplog.at_level(10, logger="square"):
        with package.Controller(scenario) as controller, package.Node("a", controller.address):
            joined.set()
        package.log.disconnect()
    assert joined.is_set()
    assert all(record.name.startswith("square") for record in caplog.records)
