"""`square doctor` between hosts that are network namespaces, with faults of networks planted for real."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from doctor_networks import PORT, FarHosts, Hosts, wait_for_line
from square.errors import SquareError
from square.run import namespaces

NAMES = ["a", "b", "c"]
LINK = '[[link]]\nfrom = "{}"\nto = "{}"\ncapacity_mbps = {}\n'
PLANNED_MBPS = 40
REAL_MBPS = 5
MESSAGE_BYTES = 16 << 20
DELAY_SECONDS = 0.01
PATIENCE_SECONDS = 30.0
# Every kernel has it, and lets a namespace choose it.
ANY_KERNELS = "reno"


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    try:
        namespaces.check_possible()
        namespaces.Namespace().close()
    except SquareError as error:
        pytest.skip(str(error))


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with Hosts(NAMES, tmp_path) as made:
        yield made


def overlay_file(folder: Path, links: list[tuple[str, str, int]]) -> Path:
    file = folder / "overlay.toml"
    file.write_text("".join(LINK.format(*link) for link in links), encoding="utf-8")
    return file


def test_hosts_without_a_fault_have_no_finding_and_then_one_way_is_blocked(hosts: Hosts) -> None:
    hosts.start_controller()
    for name in NAMES:
        hosts.start_node(name)
    assert hosts.findings() == []
    hosts.close_port("c", hosts.addresses["a"])
    [finding] = hosts.findings()
    assert (finding["rule"], finding["guilty"]) == ("reach.one_way", "link a -> c")
    assert "c reaches a: it is one way only; node b reaches c" in finding["seen"]
    assert "connections get no answer" in finding["seen"]


def test_a_firewall_before_a_nodes_port(hosts: Hosts) -> None:
    hosts.start_controller()
    hosts.close_port("c", "10.7.0.0/24")
    for name in NAMES:
        hosts.start_node(name)
    [finding] = hosts.findings()
    guilty = f"port {hosts.addresses['c']}:{PORT} of node c"
    assert (finding["rule"], finding["guilty"]) == ("reach.timed_out", guilty)
    assert "none of nodes a and b reaches it" in finding["seen"]


def test_a_loopback_address_between_hosts(hosts: Hosts) -> None:
    hosts.start_controller()
    hosts.start_node("a")
    hosts.start_node("b")
    hosts.start_node("c", bind=f"127.0.0.1:{PORT}")
    [finding] = hosts.findings()
    assert (finding["rule"], finding["guilty"]) == ("address.loopback", "node c")
    assert "nodes a and b are on other hosts" in finding["seen"]


def test_a_link_slower_than_planned(hosts: Hosts, tmp_path: Path) -> None:
    file = overlay_file(tmp_path, [("a", "b", PLANNED_MBPS), ("b", "a", PLANNED_MBPS)])
    hosts.start_controller("--topology", file)
    shaper = f"tbf rate {REAL_MBPS}mbit burst 20000 latency 50ms"
    hosts.tc("a", f"qdisc add dev net0 root {shaper}")
    members = [hosts.begin_member(name, rank, MESSAGE_BYTES) for rank, name in enumerate(["a", "b"])]
    for member in members:
        wait_for_line(member)
    # A busy machine may not have sent enough by the first look.
    found: dict[str, dict[str, str]] = {}
    end = time.monotonic() + PATIENCE_SECONDS
    while "capacity.slow" not in found and time.monotonic() < end:
        found = {finding["rule"]: finding for finding in hosts.findings()}
    assert found["capacity.slow"]["guilty"] == "link a -> b"
    # Measured or not yet, by then.
    assert f"{PLANNED_MBPS} Mbit/s" in found["capacity.slow"]["seen"]


def test_buffers_of_one_host(tmp_path: Path, tun_relay: Path) -> None:
    with FarHosts(["a", "b"], tmp_path, tun_relay, DELAY_SECONDS) as hosts:
        hosts.start_controller("--topology", overlay_file(tmp_path, [("a", "b", 1000), ("b", "a", 1000)]))
        hosts.set("b", "tcp_rmem", "4096 8192 16384")
        for name in ("a", "b"):
            hosts.start_node(name)
        [finding] = hosts.findings()
    assert (finding["rule"], finding["guilty"]) == ("network.buffers", "node b")
    assert "its tcp_rmem allows 16 KiB a connection: link a -> b" in finding["seen"]


def test_another_congestion_control_of_one_host(hosts: Hosts) -> None:
    if Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="ascii").strip() == ANY_KERNELS:
        pytest.skip(f"{ANY_KERNELS} is this machine's own, and no other may be set in a namespace")
    hosts.set("c", "tcp_congestion_control", ANY_KERNELS)
    hosts.start_controller()
    for name in NAMES:
        hosts.start_node(name)
    [finding] = hosts.findings()
    assert (finding["rule"], finding["guilty"]) == ("network.congestion", "node c")
