"""`square run --emulate netns`: what it makes, and that nothing of it stays."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import COMMAND, TRIANGLE, assert_clear_error, square, start, wait_until, workers_of
from square.errors import SquareError
from square.run import namespaces

# The kernel takes a namespace back a moment after its last process, and after connections
# that were cut in the middle have given up.
FREED_SECONDS = 60.0

LIMITS = '[[overlay.node]]\nname = "a"\negress_mbps = 30\n[[overlay.node]]\nname = "b"\ningress_mbps = 35\n'


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    try:
        namespaces.check_possible()
        namespaces.Namespace().close()
    except SquareError as error:
        pytest.skip(str(error))


@pytest.fixture
def triangle(tmp_path: Path) -> Path:
    file = tmp_path / "triangle.toml"
    file.write_text(TRIANGLE, encoding="utf-8")
    return file


def run(*arguments: str | Path) -> dict[str, Any]:
    result = square("run", *arguments, "--emulate", "netns", "--json")
    assert result.returncode == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def host_interfaces() -> str:
    return subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout


def inside(process_id: int, *command: str) -> str:
    """What a command prints in the network of that process."""
    words = ["nsenter", "-t", str(process_id), "-n", *command]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_the_report_says_what_was_made(triangle: Path) -> None:
    document = run(triangle)
    assert document["network"] == {
        "mode": "netns",
        "paced": True,
        "mtu_bytes": 9000,
        "congestion_control": "cubic",
        "qdisc": {
            "kind": "tbf",
            "rate": "capacity",
            "burst_seconds": 0.005,
            "min_burst_bytes": 18_200,
            "latency_seconds": 0.05,
            "links": 5,
            "limited_nodes": 0,
        },
    }
    assert document["verified"]["bytes"] == 1_000_000
    [policy] = document["runs"]
    links = {(link["from"], link["to"]): link["bytes"] for link in policy["traffic"]["links"]}
    assert set(links) == {("a", "b"), ("b", "c"), ("c", "a"), ("b", "a"), ("a", "c")}
    # All of it crossed the shapers, headers included, and none of it twice.
    into_b, into_a = links["a", "b"], links["b", "a"]
    assert 400_000 < into_b < 1.5 * 400_000
    assert 200_000 < into_a + links["c", "a"] < 1.5 * 200_000 + 0.1 * 400_000


def test_the_kernel_alone_and_tables(triangle: Path) -> None:
    result = square("run", triangle, "--emulate", "netns", "--unpaced", "--compare", "square,mcf")
    assert result.returncode == 0, result.stderr
    for fragment in ("veth with MTU 9000", "5 links shaped by TBF", "not paced by the nodes", "TCP cubic"):
        assert fragment in result.stdout.replace("\n", " ")
    assert result.stdout.count("dropped by shapers") == 2
    assert "all 2000000 bytes at 6 destinations verified" in result.stdout


def test_unpaced_means_nothing_on_loopback(triangle: Path) -> None:
    assert_clear_error(square("run", triangle, "--unpaced"), "--unpaced needs --emulate netns")


@pytest.fixture
def long_run(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run that would take minutes, with node limits, at the time when its data flows."""
    file = tmp_path / "triangle.toml"
    text = TRIANGLE.replace("400_000", "400_000_000").replace(
        "[[overlay.link]]", LIMITS + "[[overlay.link]]", 1
    )
    file.write_text(text, encoding="utf-8")
    process = start("run", file, "--scale-bytes", "0.5", "--emulate", "netns")
    assert process.stderr is not None
    for line in process.stderr:
        if "delivered" in line:
            break
    assert len(workers_of(process.pid)) == 3
    yield process
    process.kill()
    process.communicate()


def named(process_ids: list[int]) -> dict[str, int]:
    """The workers of the triangle by the node that they are: its address tells."""
    found = {}
    for process_id in process_ids:
        addresses = inside(process_id, "ip", "-o", "-4", "address", "show", "lo")
        for number, name in enumerate("abc", start=1):
            if f"10.1.0.{number}/32" in addresses:
                found[name] = process_id
    return found


def shapers_of(process_id: int) -> dict[str, dict[str, Any]]:
    """By interface."""
    listing = json.loads(inside(process_id, "tc", "-s", "-j", "qdisc"))
    return {qdisc["dev"]: qdisc for qdisc in listing if qdisc["kind"] == "tbf"}


def test_each_node_has_a_network_of_its_own(long_run: subprocess.Popen[str]) -> None:
    nodes = named(workers_of(long_run.pid))
    assert set(nodes) == set("abc")
    own = {os.readlink(f"/proc/{process_id}/ns/net") for process_id in nodes.values()}
    assert len(own) == 3
    assert os.readlink("/proc/self/ns/net") not in own
    # The command itself stays where it was.
    assert os.readlink(f"/proc/{long_run.pid}/ns/net") == os.readlink("/proc/self/ns/net")

    shapers = shapers_of(nodes["a"])
    # 40 and 4 Mbit/s, 5 ms of each or two packets, and all of it counted at the node's limit too.
    assert shapers["to1"]["options"]["rate"] == 5_000_000
    assert shapers["to1"]["options"]["burst"] == pytest.approx(25_000, abs=1)
    assert shapers["to1"]["options"]["lat"] == pytest.approx(50_000, abs=1_000)
    assert shapers["to2"]["options"]["rate"] == 500_000
    assert shapers["to2"]["options"]["burst"] == pytest.approx(18_200, abs=1)
    assert shapers["egress"]["options"]["rate"] == 3_750_000
    assert shapers["egress"]["bytes"] > 0
    for interface in ("to1", "to2"):
        assert "mtu 9000" in inside(nodes["a"], "ip", "link", "show", interface)
    assert shapers_of(nodes["b"])["ingress"]["bytes"] > 0
    # There is no c to b: only answers go there.
    assert "tbf" not in inside(nodes["c"], "tc", "qdisc", "show", "dev", "to1")

    connections = inside(nodes["a"], "ss", "-tinH", "state", "established")
    controls = {word for word in connections.split() if word in ("cubic", "bbr", "reno")}
    assert controls == {"cubic"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left(long_run: subprocess.Popen[str], number: signal.Signals) -> None:
    host = host_interfaces()
    workers = workers_of(long_run.pid)
    networks = {os.readlink(f"/proc/{process_id}/ns/net") for process_id in workers}
    a = named(workers)["a"]
    # Keeps the network of one node. Its interfaces end in those of the others, and go with them.
    kept = os.open(f"/proc/{a}/ns/net", os.O_RDONLY)
    try:
        long_run.send_signal(number)
        long_run.communicate(timeout=30)
        assert wait_until(lambda: workers_of(long_run.pid) == [], 10)

        def interfaces() -> set[str]:
            words = ["nsenter", f"--net=/proc/self/fd/{kept}", "ip", "-j", "link"]
            listing = subprocess.run(words, pass_fds=[kept], capture_output=True, text=True, check=True)
            return {link["ifname"] for link in json.loads(listing.stdout)}

        gone = wait_until(lambda: interfaces() <= {"lo", "egress"}, FREED_SECONDS)
        assert gone, interfaces()
    finally:
        os.close(kept)
    assert host_interfaces() == host
    assert networks.isdisjoint(networks_in_use())


def networks_in_use() -> set[str]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(os.readlink(entry))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("capability", ["sys_admin", "net_admin"])
def test_without_the_right_it_says_what_to_do(triangle: Path, capability: str) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("takes root and setpriv to give the right away")
    words = [
        "setpriv",
        "--bounding-set",
        f"-{capability}",
        *COMMAND,
        "run",
        str(triangle),
        "--emulate",
        "netns",
    ]
    result = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert_clear_error(result, "Operation not permitted", "run it as root", "pace on loopback")


def test_without_ip_it_says_what_to_do(triangle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "_MORE_FOLDERS", ())
    monkeypatch.setenv("PATH", str(triangle.parent))
    with pytest.raises(SquareError, match="`ip`: install iproute2"):
        namespaces.check_possible()


def test_a_user_namespace_is_enough(triangle: Path) -> None:
    words = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this kernel lets nobody make user namespaces")
    command = [*words, *COMMAND, "run", str(triangle), "--emulate", "netns", "--json", "--quiet"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["network"]["mode"] == "netns"


def test_a_batch_that_fails_names_its_line() -> None:
    namespace = namespaces.Namespace()
    try:
        lines = ["link set lo up", "link set nothing up"]
        with pytest.raises(SquareError, match="`ip link set nothing up` failed: Cannot find device"):
            namespace.run(lambda: namespaces.run_batch("ip", lines))
    finally:
        namespace.close()


def test_a_process_with_threads_is_not_moved() -> None:
    script = (
        "import threading; from square.run import namespaces\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "namespaces.isolate_process()"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "several threads" in result.stderr
