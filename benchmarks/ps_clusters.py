"""Parameter servers between emulated clusters: network namespaces, links that the kernel shapes, and sleeps
in place of inner steps. Needs root, or `unshare --user --map-root-user`.

    python benchmarks/ps_clusters.py speeds [--slow-mbps 10 ...]   throughput over synchronous DiLoCo
    python benchmarks/ps_clusters.py scaling [--clusters 1 ... 7]  weak scaling
    python benchmarks/ps_clusters.py relays                        pushes over Square and over Gloo
    python benchmarks/ps_clusters.py many [--clusters 8] [--servers 3]  where each cluster's time goes

"speeds": four clusters whose steps take 1, 1.16, 1.33 and 1.5 times as long, three with 100 Mbit/s to the
servers' site and one with less. What asynchrony can gain is known from the times of steps and transfers; the
figure is the part of it that is reached. "relays": the slow cluster's direct link to the servers' site has 10
Mbit/s, all others have 100, and the same bytes go by Gloo's send and receive. "many": clusters of unlike
speeds with 100 Mbit/s to each of several servers' sites; what the master says of each, as in Di-PS's Table 2.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import square.ps
from square.run.sites import Sites

CLUSTER = str(Path(__file__).resolve().with_name("ps_cluster.py"))
HUB = "servers"
SPEEDS = (1.0, 1.16, 1.33, 1.5)
STEPS = 64
MBPS = 1e6
PUSH_BITS, PULL_BITS = 16, 32  # of an element: bfloat16, float32


def star(capacities: Mapping[str, float]) -> square.Topology:
    """Every cluster has a link to the servers' site, and back."""
    topology = square.Topology()
    topology.add_node(HUB)
    for name, capacity in capacities.items():
        topology.add_node(name)
        topology.add_link(name, HUB, capacity)
        topology.add_link(HUB, name, capacity)
    return topology


def mesh(names: Sequence[str], slow: str) -> square.Topology:
    topology = square.Topology()
    for name in (HUB, *names):
        topology.add_node(name)
    for one in (HUB, *names):
        for other in (HUB, *names):
            if one != other:
                is_slow = {one, other} == {HUB, slow}
                topology.add_link(one, other, (10 if is_slow else 100) * MBPS)
    return topology


def run_servers(
    topology: square.Topology,
    clusters: Sequence[str],
    settings: dict[str, Any],
    steps: Sequence[float],
    hubs: Sequence[str] = (HUB,),
) -> tuple[list[dict[str, Any]], square.ps.Status]:
    """What every cluster says, and the master's status once they are through."""
    with Sites(topology) as sites, tempfile.TemporaryDirectory() as folder:
        master = sites.beside(
            lambda address: square.ps.Master(
                f"{address}:7000",
                identity=sites.identity("controller", "master"),
                overlay=topology,
                servers=len(hubs),
                clip=None,
                grace=0.0,
                penalty=None,
            )
        )
        with master:
            servers = [
                sites.start(
                    hub,
                    [sys.executable, "-m", "square", "ps", "server", "--master", master.address,
                     "--name", hub, "--snapshots", f"{folder}/{hub}",
                     "--identity", sites.identity("node", hub), "--bind", f"{sites.address_of(hub)}:0"],
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )
                for hub in hubs
            ]  # fmt: skip
            try:
                given = settings | {"master": master.address, "clusters": len(clusters)}
                said = _collect(sites, clusters, "ps", given, steps, {})
                return said, master.status()
            finally:
                for server in servers:
                    server.kill()
                    server.wait()


def run_ranks(
    mode: str,
    topology: square.Topology,
    clusters: Sequence[str],
    settings: dict[str, Any],
    steps: Sequence[float],
) -> list[dict[str, Any]]:
    """The clusters as ranks of torch.distributed; where the servers' site is none, it relays."""
    scenario = square.Scenario(topology, square.Policy("exact"), name="clusters")
    with Sites(topology) as sites, sites.controller(scenario) as controller:
        where = {"SQUARE_CONTROLLER": controller.address}
        relay = None
        if HUB not in clusters:
            relay = sites.start(
                HUB,
                [sys.executable, "-m", "square", "node", "--name", HUB,
                 "--controller", controller.address,
                 "--bind", f"{sites.address_of(HUB)}:0", "--identity", sites.identity("node", HUB)],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            assert relay.stdout is not None
            relay.stdout.readline()
        try:
            # Clusters have no links between them: the ranks' store is where all reach it.
            store, address = sites.beside(_make_store)
            job = {
                "MASTER_ADDR": address,
                "MASTER_PORT": str(store.port),
                "WORLD_SIZE": str(len(clusters)),
                "TORCHELASTIC_USE_AGENT_STORE": "True",
            }
            return _collect(sites, clusters, mode, settings, steps, job | where, controller)
        finally:
            if relay is not None:
                relay.kill()
                relay.wait()


def _make_store(address: str) -> tuple[Any, str]:
    from torch.distributed import TCPStore

    return TCPStore(address, 29500, is_master=True, wait_for_workers=False), address


def _collect(
    sites: Sites,
    clusters: Sequence[str],
    mode: str,
    settings: dict[str, Any],
    steps: Sequence[float],
    environment: dict[str, str],
    controller: square.Controller | None = None,
) -> list[dict[str, Any]]:
    processes = []
    for rank, (name, seconds) in enumerate(zip(clusters, steps, strict=True)):
        given = json.dumps(settings | {"step_seconds": seconds, "steps": STEPS})
        own = sites.environment(name, controller) | environment | {"RANK": str(rank), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, CLUSTER, mode, name, given]
        processes.append(sites.start(name, command, own, stdout=subprocess.PIPE))
    said = []
    for process in processes:
        out, _ = process.communicate(timeout=600)
        if process.returncode != 0:
            raise SystemExit(f"a cluster ended with exit code {process.returncode}; its messages are above")
        said.append(json.loads(out.splitlines()[-1]))
    return said


def throughput(said: Sequence[dict[str, Any]]) -> float:
    """Steps per second of all clusters together."""
    return sum(one["steps"] / one["seconds"] for one in said)


def speeds(options: argparse.Namespace) -> list[dict[str, Any]]:
    names = ["a", "b", "c", "d"]
    rows = []
    for slow in options.slow_mbps:
        capacities = {"a": 100.0, "b": 100.0, "c": 100.0, "d": slow}
        topology = star({name: capacity * MBPS for name, capacity in capacities.items()})
        steps = [options.step_seconds * speed for speed in SPEEDS]
        settings = {"elements": options.elements, "seconds": options.seconds}
        asynchronous, _ = run_servers(topology, names, settings, steps)
        synchronous = run_ranks("diloco", topology, names, settings, steps)
        # Of each alone: its steps, its push and its pull at the link's rate.
        bits = options.elements * (PUSH_BITS + PULL_BITS)
        alone = [
            STEPS * step + bits / (MBPS * capacities[name]) for name, step in zip(names, steps, strict=True)
        ]

        # The slowest waits for nobody: what it waits for is the exchange.
        together = STEPS * max(steps) + statistics.median(synchronous[-1]["waits"])
        ceiling = sum(1 / seconds for seconds in alone) / (len(names) / together)
        gain = throughput(asynchronous) / throughput(synchronous)
        rows.append(
            {
                "slow_mbps": slow,
                "servers_steps_per_second": throughput(asynchronous),
                "diloco_steps_per_second": throughput(synchronous),
                "gain": gain,
                "ceiling": ceiling,
                "of_ceiling": gain / ceiling,
                "exchange_seconds": {one["site"]: statistics.median(one["waits"]) for one in asynchronous},
                "diloco_exchange_seconds": statistics.median(synchronous[-1]["waits"]),
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def scaling(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for count in options.clusters:
        names = [f"c{number}" for number in range(count)]
        topology = star(dict.fromkeys(names, 100 * MBPS))
        settings = {"elements": options.elements, "seconds": options.seconds}
        said, _ = run_servers(topology, names, settings, [options.step_seconds] * count)
        waits = [wait for one in said for wait in one["waits"]]
        exchange = statistics.median(waits)
        rows.append(
            {
                "clusters": count,
                "steps_per_second": throughput(said),
                "exchange_seconds": exchange,
                "exchange_share": exchange / (exchange + STEPS * options.step_seconds),
            }
        )
        first = rows[0]["steps_per_second"] / rows[0]["clusters"]
        rows[-1]["of_ideal"] = throughput(said) / (count * first)
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def relays(options: argparse.Namespace) -> list[dict[str, Any]]:
    names = ["a", "b", "c", "d"]
    topology = mesh(names, "d")
    steps = [options.step_seconds] * 4
    settings = {"elements": options.elements, "seconds": options.seconds, "rounds": 3}
    over_square, _ = run_servers(topology, names, settings, steps)
    over_gloo = run_ranks("gloo", topology, [HUB, *names], settings, [0.0] * 5)
    square_seconds = {one["site"]: statistics.median(one["waits"]) for one in over_square}
    gloo_seconds = {one["site"]: statistics.median(one["waits"]) for one in over_gloo[1:]}
    row = {
        "square_seconds": square_seconds,
        "gloo_seconds": gloo_seconds,
        "times_less_in_sum": sum(gloo_seconds.values()) / sum(square_seconds.values()),
        "times_less_slow": gloo_seconds["d"] / square_seconds["d"],
    }
    print(row, file=sys.stderr, flush=True)
    return [row]


def many(options: argparse.Namespace) -> list[dict[str, Any]]:
    count = options.clusters[-1] if len(options.clusters) == 1 else 8
    names = [f"c{number}" for number in range(count)]
    hubs = [f"servers{number}" for number in range(options.servers)]
    topology = square.Topology()
    for name in (*hubs, *names):
        topology.add_node(name)
    for name in names:
        for hub in hubs:
            topology.add_link(name, hub, 100 * MBPS)
            topology.add_link(hub, name, 100 * MBPS)
    steps = [options.step_seconds * (1 + 0.5 * number / max(count - 1, 1)) for number in range(count)]
    settings = {"elements": options.elements, "seconds": options.seconds, "breakdown": True}
    said, status = run_servers(topology, names, settings, steps, hubs)
    rows = []
    for one, step in zip(said, steps, strict=True):
        rounds = one["breakdown"]
        rows.append(
            {
                "cluster": one["site"],
                "steps_seconds": STEPS * step,
                "push_seconds": statistics.median(push for push, _ in rounds),
                "pull_seconds": statistics.median(pull for _, pull in rounds),
                "wait_seconds": statistics.median(one["waits"]),
                "training_share": one["steps"] * step / one["seconds"],
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)
    for server in status.servers:
        rows.append(
            {
                "server": server.name,
                "elements": server.elements,
                "update_seconds": server.update_seconds,
                "snapshot_seconds": server.snapshot_seconds,
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = {"speeds": speeds, "scaling": scaling, "relays": relays, "many": many}
    parser.add_argument("what", choices=kinds)
    parser.add_argument("--slow-mbps", type=float, nargs="+", default=[10.0, 25.0, 50.0, 100.0])
    parser.add_argument("--clusters", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6, 7])
    parser.add_argument("--servers", type=int, default=3, help='of "many"')
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--step-seconds", type=float, default=0.05)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each run")
    options = parser.parse_args()
    print(json.dumps(kinds[options.what](options), indent=1))


if __name__ == "__main__":
    main()
