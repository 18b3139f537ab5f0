"""
The extension module of square; use the package, not this.
"""

from __future__ import annotations
import collections.abc
import os
import typing
import typing_extensions

__all__: list[str] = [
    "Collective",
    "CollectiveView",
    "Communicator",
    "Controller",
    "LinkView",
    "Node",
    "NodeInformation",
    "NodeView",
    "Plan",
    "PlanCertificate",
    "PlanCollective",
    "PlanCut",
    "PlanLink",
    "PlanNode",
    "PlanPath",
    "PlanResult",
    "PlanSession",
    "PlanStream",
    "PlanTenant",
    "Policy",
    "Scenario",
    "ShotTrace",
    "Tenant",
    "Topology",
    "Work",
    "find_violations",
    "kProtocolVersion",
    "make_plan",
    "policy_names",
    "set_log",
    "validate",
]

class Collective:
    """
    One collective of a tenant, to make a Scenario with.
    """
    def __init__(
        self,
        tenant: str,
        op: str = "broadcast",
        root: str | None = None,
        members: str | collections.abc.Sequence[str] = "all",
        size_bytes: typing.SupportsInt | typing.SupportsIndex = 0,
        weight: typing.SupportsFloat | typing.SupportsIndex = 1.0,
        algorithm: str = "planned",
    ) -> None: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def members(self) -> str | list[str]: ...
    @property
    def op(self) -> str: ...
    @property
    def root(self) -> str | None: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def tenant(self) -> str: ...
    @property
    def weight(self) -> float: ...

class CollectiveView:
    """
    One collective of a scenario.
    """
    @property
    def id(self) -> int: ...
    @property
    def members(self) -> list[str]: ...
    @property
    def op(self) -> str: ...
    @property
    def root(self) -> str | None: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def tenant(self) -> str: ...
    @property
    def weight(self) -> float: ...

class Communicator:
    """
    Operations on a group, as one member sees them: see square/communicator.h.
    """
    def __init__(
        self,
        node: Node,
        group: str,
        tenant: str,
        nodes: collections.abc.Sequence[str],
        rank: typing.SupportsInt | typing.SupportsIndex,
        collectives: collections.abc.Sequence[
            tuple[
                str,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsFloat | typing.SupportsIndex,
            ]
        ] = [],
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
    ) -> None: ...
    def broadcast(
        self,
        data: typing_extensions.Buffer,
        root: typing.SupportsInt | typing.SupportsIndex = 0,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
    ) -> None:
        """
        Copies the root's bytes into everybody's buffer, without a copy in between.
        """
    def broadcast_async(
        self,
        data: typing_extensions.Buffer,
        root: typing.SupportsInt | typing.SupportsIndex = 0,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
    ) -> Work: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...

class Controller:
    """
    The control plane, in this process: see square/controller.h.
    """
    def __enter__(self) -> Controller: ...
    def __exit__(self, *args: object) -> None: ...
    def __init__(
        self,
        scenario: Scenario,
        bind_address: str = "127.0.0.1:0",
        advertised_address: str = "",
        token: str = "",
    ) -> None: ...
    def nodes(self) -> list[NodeInformation]: ...
    def plan(self) -> Plan: ...
    def set_policy(self, policy: Policy) -> int: ...
    def set_topology(self, topology: Topology) -> int: ...
    def stop(self) -> None: ...
    def wait_for_nodes(
        self, names: collections.abc.Sequence[str], timeout: typing.SupportsFloat | typing.SupportsIndex
    ) -> None: ...
    @property
    def address(self) -> str: ...

class LinkView:
    """
    A directed link of a topology; latency in seconds.
    """
    @property
    def capacity_bps(self) -> float: ...
    @property
    def from_node(self) -> str: ...
    @property
    def latency(self) -> float: ...
    @property
    def price_usd_per_gb(self) -> float: ...
    @property
    def to_node(self) -> str: ...

class Node:
    """
    A node of the overlay, in this process: see square/overlay_node.h.
    """
    def __enter__(self) -> Node: ...
    def __exit__(self, *args: object) -> None: ...
    def __init__(
        self,
        name: str,
        controller: str,
        bind_address: str = "127.0.0.1:0",
        advertised_address: str = "",
        token: str = "",
        window_bytes: typing.SupportsInt | typing.SupportsIndex = 67108864,
        paced: bool = True,
    ) -> None: ...
    def statistics(self) -> dict[str, int]: ...
    def stop(self) -> None: ...
    @property
    def address(self) -> str: ...
    @property
    def name(self) -> str: ...

class NodeInformation:
    @property
    def address(self) -> str: ...
    @property
    def connected(self) -> bool: ...
    @property
    def installed(self) -> int: ...
    @property
    def name(self) -> str: ...

class NodeView:
    """
    A node of a topology.
    """
    @property
    def egress_bps(self) -> float: ...
    @property
    def ingress_bps(self) -> float: ...
    @property
    def name(self) -> str: ...

class Plan:
    """
    Who sends what over which trees at what rate. Immutable.
    """
    @staticmethod
    def from_json(text: str) -> Plan: ...
    def to_json(self) -> str: ...
    @property
    def certificate(self) -> PlanCertificate: ...
    @property
    def collectives(self) -> list[PlanCollective]: ...
    @property
    def epoch(self) -> int: ...
    @property
    def jain(self) -> float: ...
    @property
    def links(self) -> list[PlanLink]: ...
    @property
    def min_rate_bps(self) -> float: ...
    @property
    def nodes(self) -> list[PlanNode]: ...
    @property
    def policy(self) -> str: ...
    @property
    def sessions(self) -> list[PlanSession]: ...
    @property
    def solve_seconds(self) -> float: ...
    @property
    def tenants(self) -> list[PlanTenant]: ...
    @property
    def total_rate_bps(self) -> float: ...

class PlanCertificate:
    """
    Why no plan does better: see square/plan.h.
    """
    @property
    def cuts(self) -> list[PlanCut]: ...
    @property
    def level_bound_bps(self) -> float | None: ...

class PlanCollective:
    """
    One collective of a plan.
    """
    @property
    def bound_bps(self) -> float: ...
    @property
    def completion_seconds(self) -> float: ...
    @property
    def id(self) -> int: ...
    @property
    def op(self) -> str: ...
    @property
    def rate_bps(self) -> float: ...
    @property
    def sessions(self) -> list[int]: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def tenant(self) -> str: ...
    @property
    def weight(self) -> float: ...

class PlanCut:
    """
    A cut that bounds a collective's rate.
    """
    @property
    def bound_bps(self) -> float: ...
    @property
    def collective(self) -> int: ...
    @property
    def source_side(self) -> list[str]: ...

class PlanLink:
    """
    A link and its load; latency in seconds.
    """
    @property
    def capacity_bps(self) -> float: ...
    @property
    def from_node(self) -> str: ...
    @property
    def latency(self) -> float: ...
    @property
    def load_bps(self) -> float: ...
    @property
    def to_node(self) -> str: ...

class PlanNode:
    @property
    def egress_bps(self) -> float: ...
    @property
    def ingress_bps(self) -> float: ...
    @property
    def name(self) -> str: ...

class PlanPath:
    """
    A conceptual path of a session.
    """
    @property
    def member(self) -> str: ...
    @property
    def nodes(self) -> list[str]: ...
    @property
    def rate_bps(self) -> float: ...

class PlanResult:
    @property
    def plan(self) -> Plan: ...
    @property
    def shots(self) -> list[ShotTrace]: ...

class PlanSession:
    """
    One session of a plan.
    """
    @property
    def collective(self) -> int: ...
    @property
    def id(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def lp_rate_bps(self) -> float: ...
    @property
    def members(self) -> list[str]: ...
    @property
    def offset_bytes(self) -> int: ...
    @property
    def pair(self) -> int | None: ...
    @property
    def paths(self) -> list[PlanPath]: ...
    @property
    def rate_bps(self) -> float: ...
    @property
    def root(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def streams(self) -> list[PlanStream]: ...

class PlanStream:
    """
    A tree with a rate; links in feeding order.
    """
    @property
    def coded(self) -> bool: ...
    @property
    def links(self) -> list[tuple[str, str]]: ...
    @property
    def rate_bps(self) -> float: ...

class PlanTenant:
    @property
    def name(self) -> str: ...
    @property
    def rate_bps(self) -> float: ...
    @property
    def weight(self) -> float: ...

class Policy:
    """
    How to plan: see square/planner.h.
    """
    def __init__(
        self,
        name: str = "square",
        shots: typing.SupportsInt | typing.SupportsIndex = 3,
        paths: str = "shortest",
        fairness: str = "collective",
    ) -> None: ...
    @property
    def fairness(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def paths(self) -> str: ...
    @property
    def shots(self) -> int: ...

class Scenario:
    """
    An overlay, a policy, tenants and their collectives.
    """

    policy: Policy
    @staticmethod
    def parse(text: str, source_name: str = "<text>", directory: str = ".") -> Scenario: ...
    @staticmethod
    def read(path: os.PathLike[str] | str) -> Scenario: ...
    def __init__(
        self,
        topology: Topology,
        policy: Policy = ...,
        tenants: collections.abc.Sequence[Tenant] = [],
        collectives: collections.abc.Sequence[Collective] = [],
        name: str = "scenario",
    ) -> None: ...
    def copy(self) -> Scenario: ...
    @property
    def collectives(self) -> list[CollectiveView]: ...
    @property
    def name(self) -> str: ...
    @property
    def tenants(self) -> list[Tenant]: ...
    @property
    def topology(self) -> Topology: ...

class ShotTrace:
    """
    One linear program of a plan, as it was solved.
    """
    @property
    def active(self) -> list[int]: ...
    @property
    def dropped(self) -> list[int]: ...
    @property
    def objective(self) -> str: ...
    @property
    def optimum_bps(self) -> float: ...
    @property
    def residual_capacity_bps(self) -> list[float]: ...
    @property
    def residual_egress_bps(self) -> list[float]: ...
    @property
    def residual_ingress_bps(self) -> list[float]: ...

class Tenant:
    def __init__(self, name: str, weight: typing.SupportsFloat | typing.SupportsIndex = 1.0) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def weight(self) -> float: ...

class Topology:
    """
    The overlay: nodes and directed links. See square/topology.h.
    """
    @staticmethod
    def full_mesh(
        names: collections.abc.Sequence[str],
        capacity_bps: typing.SupportsFloat | typing.SupportsIndex | None = None,
        latency: typing.SupportsFloat | typing.SupportsIndex = 0.0,
        price_usd_per_gb: typing.SupportsFloat | typing.SupportsIndex = 0.0,
    ) -> Topology: ...
    @staticmethod
    def read(path: os.PathLike[str] | str) -> Topology:
        """
        Reads GML, CSV or TOML, by the file's extension.
        """
    def __init__(self) -> None: ...
    def add_link(
        self,
        from_node: str,
        to_node: str,
        capacity_bps: typing.SupportsFloat | typing.SupportsIndex | None = None,
        latency: typing.SupportsFloat | typing.SupportsIndex = 0.0,
        price_usd_per_gb: typing.SupportsFloat | typing.SupportsIndex = 0.0,
    ) -> None: ...
    def add_node(
        self,
        name: str,
        egress_bps: typing.SupportsFloat | typing.SupportsIndex | None = None,
        ingress_bps: typing.SupportsFloat | typing.SupportsIndex | None = None,
    ) -> None: ...
    def copy(self) -> Topology: ...
    def draw_capacities(
        self,
        mean_bps: typing.SupportsFloat | typing.SupportsIndex,
        stddev_bps: typing.SupportsFloat | typing.SupportsIndex,
        seed: typing.SupportsInt | typing.SupportsIndex,
        only_unlimited: bool = True,
    ) -> None: ...
    def k_shortest_paths(
        self, source: str, target: str, k: typing.SupportsInt | typing.SupportsIndex
    ) -> list[list[str]]: ...
    def k_widest_paths(
        self, source: str, target: str, k: typing.SupportsInt | typing.SupportsIndex
    ) -> list[list[str]]: ...
    def reachable_from(self, name: str) -> list[str]: ...
    def set_capacity(
        self, from_node: str, to_node: str, capacity_bps: typing.SupportsFloat | typing.SupportsIndex
    ) -> None: ...
    def set_limits(
        self,
        node: str,
        egress_bps: typing.SupportsFloat | typing.SupportsIndex | None = None,
        ingress_bps: typing.SupportsFloat | typing.SupportsIndex | None = None,
    ) -> None: ...
    @property
    def link_count(self) -> int: ...
    @property
    def links(self) -> list[LinkView]: ...
    @property
    def node_count(self) -> int: ...
    @property
    def nodes(self) -> list[NodeView]: ...

class Work:
    """
    An operation that runs.
    """
    def cancel(self) -> None: ...
    def wait(self) -> None:
        """
        Waits until it is over; raises if it failed. Ctrl-C cancels it.
        """
    def wait_for(self, seconds: typing.SupportsFloat | typing.SupportsIndex) -> bool:
        """
        Whether it was over within that time.
        """
    @property
    def is_done(self) -> bool: ...

def find_violations(plan: Plan) -> list[str]:
    """
    Every way in which the plan breaks a rule; empty for a valid plan.
    """

def make_plan(scenario: Scenario) -> PlanResult:
    """
    Plans a scenario: see square/planner.h.
    """

def policy_names() -> list[str]: ...
def set_log(
    callback: collections.abc.Callable[[int, str, str], None] | None,
    minimum: typing.SupportsInt | typing.SupportsIndex = 20,
) -> None:
    """
    Sends the library's messages to callback(level, component, message); None drops them.
    """

def validate(plan: Plan) -> None:
    """
    Raises InvalidArgumentError with the first violations.
    """

__version__: str = "0.1.0"
kProtocolVersion: int = 1
