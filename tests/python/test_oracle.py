"""The optimum of every shot against SciPy's HiGHS on the same program and residual.

Random meshes and Topology Zoo networks, subsets of receivers, node limits, weights, both
kinds of paths, every policy on every instance. SQUARE_SEED=N runs one sequence again.
"""

import os
import random
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from linear_program import Link, Multicast, Residual, optimum_bps
from square import Collective, Policy, Scenario, Tenant, Topology, policy_names
from square._core import PlanResult, ShotTrace, make_plan

INSTANCES = 3000 if os.environ.get("SQUARE_LONG") == "1" else 400
PARTS = 8  # tests, so that a failure is found sooner and a part can be run alone
TOLERANCE = 1e-6
# Solvers keep constraints to 1e-7 of the largest capacity. A rate under ten of those is noise
# in what is left of links that are used up, and stands for none; what noise adds to a larger one
# matters only where that is under 3% of the largest capacity. A max-min optimum is a rate per
# weight: the least weight makes the smallest rate of it.
NO_RATE = 1e-6
NOISE = 3e-8
MAX_ZOO_NODES = 30


@dataclass(frozen=True)
class Instance:
    topology: Topology
    tenants: list[Tenant]
    collectives: list[Collective]
    kind: str  # of paths
    k: int
    shots: int
    fairness: str

    def scenario(self, policy: str) -> Scenario:
        spec = Policy(policy, shots=self.shots, paths=f"{self.kind}:{self.k}", fairness=self.fairness)
        return Scenario(self.topology, spec, self.tenants, self.collectives)


def random_mesh(rng: random.Random) -> Topology:
    """A full mesh, or one with links left out: a ring keeps every node in reach."""
    count = rng.randint(3, 8)
    names = [f"n{number}" for number in range(count)]
    topology = Topology()
    for name in names:
        topology.add_node(name)
    density = rng.choice([1.0, 1.0, 0.7, 0.4])
    for i, tail in enumerate(names):
        for head in names:
            if tail == head or (head != names[(i + 1) % count] and rng.random() > density):
                continue
            capacity = rng.choice([rng.gauss(10, 1), rng.uniform(1, 40), 10.0])
            topology.add_link(tail, head, max(capacity, 0.5) * 1e6)
    return topology


def random_instance(rng: random.Random, zoo: list[Path]) -> Instance:
    if zoo and rng.random() < 0.4:
        topology = Topology.read(str(rng.choice(zoo)))
        topology.draw_capacities(10e6, 1e6, rng.randrange(2**32), only_unlimited=False)
        most_collectives, k = 3, rng.randint(1, 3)
    else:
        topology = random_mesh(rng)
        most_collectives, k = 8, rng.randint(1, 7)
    names = [node.name for node in topology.nodes]
    if rng.random() < 0.4:
        for name in rng.sample(names, rng.randint(1, len(names))):
            topology.set_limits(
                name,
                rng.uniform(5e6, 60e6) if rng.random() < 0.7 else None,
                rng.uniform(5e6, 60e6) if rng.random() < 0.7 else None,
            )
    tenants = [Tenant(f"t{number}", rng.choice([1.0, 1.0, 2.0, 0.3])) for number in range(rng.randint(1, 3))]
    collectives = []
    for _ in range(rng.randint(1, most_collectives)):
        root = rng.choice(names)
        others = [name for name in topology.reachable_from(root) if name != root]
        if not others:
            continue
        everybody = rng.random() < 0.5
        receivers = others if everybody else rng.sample(others, rng.randint(1, min(len(others), 6)))
        members = [root, *receivers]
        rng.shuffle(members)
        weight = rng.choice([1.0, 1.0, 3.0])
        tenant = rng.choice(tenants).name
        collectives.append(
            Collective(tenant, root=root, members=members, size_bytes=rng.choice([1, 10**6]), weight=weight)
        )
    kind, fairness = rng.choice(["shortest", "widest"]), rng.choice(["collective", "tenant"])
    return Instance(topology, tenants, collectives, kind, k, rng.randint(1, 4), fairness)


def links_of(nodes: list[str]) -> list[Link]:
    return list(pairwise(nodes))


def feasible(instance: Instance, root: str, destination: str) -> list[list[Link]]:
    find = (
        instance.topology.k_shortest_paths
        if instance.kind == "shortest"
        else instance.topology.k_widest_paths
    )
    return [links_of(nodes) for nodes in find(root, destination, instance.k)]


def tree_paths(result: PlanResult, collective: int) -> list[list[list[Link]]]:
    """What shortest-path chose: one path a destination, out of one tree."""
    [session] = [session for session in result.plan.sessions if session.collective == collective]
    paths = [links_of(path.nodes) for path in session.paths]
    assert {path.member for path in session.paths} == set(session.members) - {session.root}
    links = {link for path in paths for link in path}
    assert len(links) == len({head for _, head in links}), "the paths are no tree"
    return [[path] for path in paths]


def multicast(instance: Instance, policy: str, result: PlanResult, number: int) -> Multicast:
    spec = instance.scenario(policy).collectives[number]
    assert spec.root is not None
    if policy == "shortest-path":
        paths = tree_paths(result, number)
    else:
        paths = [feasible(instance, spec.root, name) for name in spec.members if name != spec.root]
    return Multicast(weight_of(instance, number), paths, as_unicasts=policy == "mcf")


def weight_of(instance: Instance, number: int) -> float:
    mine = instance.collectives[number]
    tenant = next(tenant.weight for tenant in instance.tenants if tenant.name == mine.tenant)
    if instance.fairness == "collective":
        return tenant * mine.weight
    return tenant * mine.weight / sum(c.weight for c in instance.collectives if c.tenant == mine.tenant)


def residual_of(topology: Topology, shot: ShotTrace) -> Residual:
    names = [node.name for node in topology.nodes]
    links = [(link.from_node, link.to_node) for link in topology.links]
    return Residual(
        links=dict(zip(links, shot.residual_capacity_bps, strict=True)),
        egress=dict(zip(names, shot.residual_egress_bps, strict=True)),
        ingress=dict(zip(names, shot.residual_ingress_bps, strict=True)),
    )


def check_first_residual(topology: Topology, shot: ShotTrace) -> None:
    """Nothing is taken before the first shot."""
    assert list(shot.residual_capacity_bps) == [link.capacity_bps for link in topology.links]
    assert list(shot.residual_egress_bps) == [node.egress_bps for node in topology.nodes]
    assert list(shot.residual_ingress_bps) == [node.ingress_bps for node in topology.nodes]


def check(instance: Instance, policy: str) -> int:
    """Compares all shots of one plan; their number."""
    result = make_plan(instance.scenario(policy))
    check_first_residual(instance.topology, result.shots[0])
    objectives = [shot.objective for shot in result.shots]
    most = 0 if policy == "max-throughput" else instance.shots
    assert objectives.count("max-min") <= most
    assert objectives.count("throughput") <= 1
    assert "throughput" not in objectives[:-1]
    multicasts = [multicast(instance, policy, result, n) for n in range(len(instance.collectives))]
    largest = max(link.capacity_bps for link in instance.topology.links)
    for number, shot in enumerate(result.shots):
        active = [multicasts[collective] for collective in shot.active]
        residual = residual_of(instance.topology, shot)
        expected = optimum_bps(active, residual, max_min=shot.objective == "max-min")
        where = f"policy {policy}, shot {number} ({shot.objective}) of {len(result.shots)}"
        unit = largest
        if shot.objective == "max-min":
            unit /= min(multicast.weight for multicast in active)
        if expected < NO_RATE * unit:
            assert shot.optimum_bps < 2 * NO_RATE * unit, where
        else:
            assert shot.optimum_bps == pytest.approx(expected, rel=TOLERANCE, abs=NOISE * unit), where
    return len(result.shots)


@pytest.fixture(scope="module")
def zoo() -> list[Path]:
    """The small networks; none where the data are not there, and then all are meshes."""
    here = Path(__file__).resolve().parents[3] / "shared" / "data"
    directory = Path(os.environ.get("SQUARE_DATA", here)) / "topology-zoo"
    files = sorted(directory.glob("*.gml"))
    if not files:
        print(f"{directory} is not there: meshes only; SQUARE_DATA names another place")
    return [file for file in files if 4 <= Topology.read(str(file)).node_count <= MAX_ZOO_NODES]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_shot_is_optimal(part: int, seed: int, zoo: list[Path]) -> None:
    shots = 0
    for number in range(part, INSTANCES, PARTS):
        rng = random.Random(f"{seed} {number}")
        instance = random_instance(rng, zoo)
        if not instance.collectives:
            continue
        # "exact" solves other programs: test_exact_oracle.py.
        for policy in [name for name in policy_names() if name != "exact"]:
            try:
                shots += check(instance, policy)
            except Exception as error:
                raise AssertionError(f"SQUARE_SEED={seed}, instance {number}: {error}") from error
    print(f"{shots} programs compared")
    assert shots > INSTANCES // PARTS
