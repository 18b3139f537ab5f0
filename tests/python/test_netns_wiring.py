"""Which lines for ip and tc an overlay becomes: no rights needed."""

import re
from collections.abc import Iterable

import pytest
import square
from square.run.wiring import Wiring, shaper

NAMES = ["a", "b", "c"]
PROCESS_IDS = {"a": 11, "b": 12, "c": 13}


@pytest.fixture
def topology() -> square.Topology:
    topology = square.Topology()
    for name in NAMES:
        topology.add_node(name)
    topology.add_link("a", "b", capacity_bps=100e6)
    topology.add_link("b", "a", capacity_bps=2e6)
    topology.add_link("b", "c", capacity_bps=5e6)
    topology.add_link("c", "a")  # without a limit
    return topology


def test_a_pair_of_neighbours_has_one_pair_of_interfaces(topology: square.Topology) -> None:
    lines = Wiring(topology).controller(PROCESS_IDS)
    pairs = [
        tuple(map(int, found.groups()))
        for line in lines
        if (found := re.search(r"netns (\d+) type veth peer .* netns (\d+)", line))
    ]
    assert sorted(pairs) == [(11, 12), (11, 13), (12, 13)]
    assert all("mtu 9000" in line for line in lines if "type veth" in line)


def test_each_direction_has_the_capacity_of_its_own_link(topology: square.Topology) -> None:
    wiring = Wiring(topology)
    assert wiring.shaped_links == 3
    assert wiring.node("a").tc == (f"qdisc add dev to1 root {shaper(100e6)}",)
    assert wiring.node("b").tc == (
        f"qdisc add dev to0 root {shaper(2e6)}",
        f"qdisc add dev to2 root {shaper(5e6)}",
    )
    # No limit, and against the direction of the only link.
    assert wiring.node("c").tc == ()


def test_routes_go_to_neighbours_and_the_controller_only(topology: square.Topology) -> None:
    topology.add_node("far")
    wiring = Wiring(topology)
    addresses = {name: wiring.address_of(name) for name in [*NAMES, "far"]}
    assert len(set(addresses.values())) == 4
    routes = [line for line in wiring.node("a").ip if line.startswith("route")]
    assert [line.split()[2] for line in routes] == [
        "10.0.0.1/32",
        *(f"{addresses[name]}/32" for name in ("b", "c")),
    ]
    assert all(f"src {addresses['a']} congctl cubic" in line for line in routes)
    assert wiring.node("far").neighbours == {}


def test_nobody_asks_for_hardware_addresses(topology: square.Topology) -> None:
    """Of those that it was told the kernel keeps 1024 in all namespaces together."""
    wiring = Wiring(topology)
    lines = wiring.controller(PROCESS_IDS)
    ends = re.findall(r"name (\S+) address (\S+) mtu 9000(?: netns (\d+))?", "\n".join(lines))
    names = {process: name for name, process in PROCESS_IDS.items()}
    hardware = {(names.get(int(process or 0)), interface): address for interface, address, process in ends}
    assert len(hardware) == len(set(hardware.values())) == 12

    def known(ip: Iterable[str]) -> set[tuple[str, str, str]]:
        return {
            (w[2], w[4], w[6]) for line in ip if (w := line.split())[0] == "neigh" and w[-1] == "permanent"
        }

    address = {name: wiring.address_of(name) for name in NAMES}
    assert known(lines) == {(address[n], hardware[n, "control"], f"n{i}") for i, n in enumerate(NAMES)}
    assert known(wiring.node("a").ip) == {
        ("10.0.0.1", hardware[None, "n0"], "control"),
        (address["b"], hardware["b", "to0"], "to1"),
        (address["c"], hardware["c", "to0"], "to2"),
    }


@pytest.mark.parametrize(
    ("rate_bps", "burst_bytes"),
    [(1e6, 18_200), (29.12e6, 18_200), (29.2e6, 18_250), (1e9, 625_000), (1_000_000.9, 18_200)],
)
def test_the_burst_is_five_milliseconds_or_two_packets(rate_bps: float, burst_bytes: int) -> None:
    rate = int(rate_bps)
    assert shaper(rate_bps) == f"tbf rate {rate}bit burst {burst_bytes} latency 50ms"


def test_node_limits_are_passed_by_all_links(topology: square.Topology) -> None:
    topology.set_limits("b", egress_bps=3e6, ingress_bps=4e6)
    wiring = Wiring(topology)
    assert wiring.limited_nodes == 1
    node = wiring.node("b")
    assert [line for line in node.ip if "ifb" in line] == [
        "link add name egress mtu 9000 type ifb",
        "link add name ingress mtu 9000 type ifb",
    ]
    assert f"qdisc add dev egress root {shaper(3e6)}" in node.tc
    assert f"qdisc add dev ingress root {shaper(4e6)}" in node.tc
    redirected = {tuple(line.split()[3:5]) for line in node.tc if line.startswith("filter")}
    assert redirected == {(dev, way) for dev in ("to0", "to2") for way in ("egress", "ingress")}


def test_addresses_do_not_run_out() -> None:
    names = [f"n{number}" for number in range(300)]
    topology = square.Topology()
    for name in names:
        topology.add_node(name)
    wiring = Wiring(topology)
    addresses = {wiring.address_of(name) for name in names}
    assert len(addresses) == 300
    assert "10.1.1.0" in addresses
