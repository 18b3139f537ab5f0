"""
The extension module of square; use the package, not this.
"""

from __future__ import annotations
import collections.abc
import datetime
import square.data
import os
import typing

__all__: list[str] = [
    "AttachedNode",
    "Authority",
    "CapacityPoint",
    "CodedBlock",
    "Collective",
    "CollectiveView",
    "Communicator",
    "Compression",
    "CompressionReport",
    "Controller",
    "Decoder",
    "Encoder",
    "ErrorFeedback",
    "ExaminedNode",
    "ExaminedOverlay",
    "FrontierPoint",
    "Generation",
    "Identity",
    "LevelGap",
    "LimitDemand",
    "LimitPart",
    "LimitProof",
    "LimitedResource",
    "LimitingCut",
    "Limits",
    "LinkInformation",
    "LinkView",
    "MemberHost",
    "Node",
    "NodeInformation",
    "NodeView",
    "OuterOptimizer",
    "OuterOptions",
    "OuterRound",
    "OverlayInformation",
    "ParameterMaster",
    "ParameterServer",
    "ParameterWorker",
    "Plan",
    "PlanCertificate",
    "PlanChange",
    "PlanCode",
    "PlanCollective",
    "PlanCut",
    "PlanHeadroom",
    "PlanLevel",
    "PlanLink",
    "PlanNode",
    "PlanPacking",
    "PlanPath",
    "PlanResult",
    "PlanSession",
    "PlanSink",
    "PlanStream",
    "PlanTenant",
    "Planner",
    "Policy",
    "Reachability",
    "Recoder",
    "Scenario",
    "ShotTrace",
    "Suspicion",
    "Tenant",
    "Topology",
    "Work",
    "ask_parameter_master",
    "attach",
    "certified_gaps",
    "cost_frontier",
    "examine_nodes",
    "find_violations",
    "is_loopback",
    "kProtocolVersion",
    "limits",
    "limits_of_collectives",
    "list_links",
    "list_nodes",
    "load_parameter_snapshot",
    "make_plan",
    "make_quick_plan",
    "policy_names",
    "set_log",
    "simulate_plan",
    "trim_process_memory",
    "tune_process_memory",
    "validate",
]

class AttachedNode(MemberHost):
    """
    A gateway's node, in another process: see square/gateway.h.
    """
    def __enter__(self) -> AttachedNode: ...
    def __exit__(self, *args: object) -> None: ...
    def stop(self) -> None:
        """
        Leaves the gateway.
        """
    @property
    def is_shared(self) -> bool:
        """
        Whether data goes through shared memory.
        """
    @property
    def name(self) -> str: ...
    @property
    def why_streamed(self) -> str:
        """
        If it does not, why.
        """

class Authority:
    """
    An operator's own authority: see square/authority.h.
    """
    @staticmethod
    def create(folder: os.PathLike[str] | str, domain: str) -> Authority:
        """
        Makes a key and its certificate in the folder.
        """
    @staticmethod
    def revoke(role: str, name: str, folder: os.PathLike[str] | str) -> None:
        """
        Believe no certificate of that name that was issued before now: for the controller's folder.
        """
    def __init__(self, folder: os.PathLike[str] | str) -> None: ...
    def grant(
        self,
        tenant: str,
        folder: os.PathLike[str] | str,
        life: datetime.timedelta,
        nodes: collections.abc.Sequence[str] = [],
        operations: collections.abc.Sequence[str] = [],
        weight: typing.SupportsFloat | typing.SupportsIndex = 1.0,
        groups: typing.SupportsInt | typing.SupportsIndex = 64,
        collectives: typing.SupportsInt | typing.SupportsIndex = 4096,
        sessions: typing.SupportsInt | typing.SupportsIndex | None = 8192,
        open_operations: typing.SupportsInt | typing.SupportsIndex | None = None,
        open_bytes: typing.SupportsInt | typing.SupportsIndex | None = None,
        members: typing.SupportsInt | typing.SupportsIndex | None = 1024,
    ) -> None:
        """
        Writes a grant into the folder of the identity of a node; tenant "*" stands for all of them. Empty: all nodes, all operations. sessions: that plans make of its collectives; members: of one group; open_operations, open_bytes: of calls under way on each node at once; None: no limit.
        """
    def issue(
        self, role: str, name: str, folder: os.PathLike[str] | str, life: datetime.timedelta = ...
    ) -> None:
        """
        Writes a new key and its certificate into the folder; role: node, tenant, controller or server.
        """
    @property
    def domain(self) -> str: ...

class CapacityPoint:
    """
    What was measured of a link, once.
    """
    @property
    def capacity_bps(self) -> float: ...
    @property
    def is_probed(self) -> bool: ...
    @property
    def system_seconds(self) -> float: ...

class CodedBlock:
    """
    A sum of multiples of a generation's blocks, and of which.
    """
    @staticmethod
    def parse(data: square.data.Data) -> CodedBlock:
        """
        What tobytes() gave. Raises DataLossError where it was cut off or changed.
        """
    def tobytes(self) -> bytes:
        """
        Header, coefficients, payload and a checksum of them, to be sent or stored.
        """
    @property
    def coefficients(self) -> list[float]:
        """
        A number of the field for each block.
        """
    @property
    def generation(self) -> Generation: ...
    @property
    def payload(self) -> bytes:
        """
        A copy.
        """
    @property
    def systematic_index(self) -> int | None:
        """
        Which block it is as it is; None for a sum.
        """

class Collective:
    """
    One collective of a tenant, to make a Scenario with. With the policy "exact": ``required_bps``, the rate that it must have where the objective is "cost"; and ``max_latency``, seconds or a timedelta, for all members or by name, that no stream takes longer than from the root to the member (in a reduce: to the root); and ``redundancy``, of a broadcast: whichever so many relays and links are lost, nothing is sent again, as so many ways more carry sums of the blocks. Collectives of one tenant's ``group`` follow one another: with the policy "exact" each has all that the group has.
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
        required_bps: typing.SupportsFloat | typing.SupportsIndex | None = None,
        max_latency: typing.SupportsFloat
        | typing.SupportsIndex
        | datetime.timedelta
        | collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex | datetime.timedelta]
        | None = None,
        redundancy: typing.SupportsInt | typing.SupportsIndex = 0,
        group: str = "",
    ) -> None: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def max_latency(self) -> float | dict[str, float] | None:
        """
        Seconds.
        """
    @property
    def members(self) -> str | list[str]: ...
    @property
    def op(self) -> str: ...
    @property
    def redundancy(self) -> int: ...
    @property
    def required_bps(self) -> float | None: ...
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
    def algorithm(self) -> str: ...
    @property
    def group(self) -> str:
        """
        Empty: it runs beside all others.
        """
    @property
    def id(self) -> int: ...
    @property
    def max_latency(self) -> dict[str, float] | None:
        """
        Seconds, by member; members without a bound are left out.
        """
    @property
    def members(self) -> list[str]: ...
    @property
    def op(self) -> str: ...
    @property
    def redundancy(self) -> int: ...
    @property
    def required_bps(self) -> float | None: ...
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
    Operations on a group, as one member sees them: see square/communicator.h. Memory is anything with the buffer protocol or, on the CPU, DLPack: NumPy arrays, tensors of torch. Every call waits, unless ``async_op``: then it returns a Work.
    """
    @staticmethod
    def join(
        node: MemberHost, group: str, timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0
    ) -> Communicator:
        """
        Joins the group of that name, the one that it had at first, whose members call grow().
        """
    def __enter__(self) -> Communicator: ...
    def __exit__(self, *args: object) -> None: ...
    def __init__(
        self,
        node: MemberHost,
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
        redundancy: typing.SupportsInt | typing.SupportsIndex = 0,
    ) -> None: ...
    def all_gather(
        self,
        input: square.data.Data,
        output: square.data.Data | collections.abc.Sequence[square.data.Data],
        dtype: str | None = None,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
        async_op: bool = False,
    ) -> Work | None:
        """
        Copies everybody's bytes to everybody. ``output`` is a buffer for every rank, or one that is cut evenly. ``dtype``: see broadcast().
        """
    def all_gather_async(
        self,
        input: square.data.Data,
        output: square.data.Data | collections.abc.Sequence[square.data.Data],
        dtype: str | None = None,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
    ) -> Work:
        """
        As all_gather(async_op=True).
        """
    def all_reduce(
        self,
        input: square.data.Data,
        output: square.data.Data | None = None,
        op: str = "sum",
        dtype: str | None = None,
        algorithm: str = "planned",
        compression: Compression | str | None = None,
        feedback: ErrorFeedback | None = None,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
        async_op: bool = False,
    ) -> Work | None:
        """
        Adds everybody's elements into everybody's output, or in place without one: all get the same bits. See reduce(). ``algorithm``: "planned", the faster one, or "ring", where every rank sends to the next one only, and the order of additions is that of the ranks under any plan. ``compression``, of float32 by sum or average: a Compression or its text, such as "int8"; all members say the same. ``feedback``: an ErrorFeedback, for a compression that has error feedback.
        """
    def all_reduce_async(
        self,
        input: square.data.Data,
        output: square.data.Data | None = None,
        op: str = "sum",
        dtype: str | None = None,
        algorithm: str = "planned",
        compression: Compression | str | None = None,
        feedback: ErrorFeedback | None = None,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
    ) -> Work:
        """
        As all_reduce(async_op=True).
        """
    def all_to_all(
        self,
        input: square.data.Data | collections.abc.Sequence[square.data.Data],
        output: square.data.Data | collections.abc.Sequence[square.data.Data],
        input_bytes: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] | None = None,
        output_bytes: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] | None = None,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
        async_op: bool = False,
    ) -> Work | None:
        """
        Part r of ``input`` goes to rank r, part r of ``output`` comes from it. Each is a buffer for every rank, or one that is cut evenly, or into ``input_bytes`` and ``output_bytes``.
        """
    def all_to_all_async(
        self,
        input: square.data.Data | collections.abc.Sequence[square.data.Data],
        output: square.data.Data | collections.abc.Sequence[square.data.Data],
        input_bytes: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] | None = None,
        output_bytes: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] | None = None,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
    ) -> Work:
        """
        As all_to_all(async_op=True).
        """
    def barrier(
        self, timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0, async_op: bool = False
    ) -> Work | None:
        """
        Returns when every member has called it.
        """
    def barrier_async(self, timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0) -> Work:
        """
        As barrier(async_op=True).
        """
    def broadcast(
        self,
        data: square.data.Data,
        root: typing.SupportsInt | typing.SupportsIndex = 0,
        dtype: str | None = None,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
        async_op: bool = False,
    ) -> Work | None:
        """
        Copies the root's bytes into everybody's buffer, without a copy in between. Where the policy codes with floats, elements of float32 may come back rounded; ``dtype``: the root's elements, where the buffer does not say what they are.
        """
    def broadcast_async(
        self,
        data: square.data.Data,
        root: typing.SupportsInt | typing.SupportsIndex = 0,
        dtype: str | None = None,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
    ) -> Work:
        """
        As broadcast(async_op=True).
        """
    def close(self, timeout: typing.SupportsFloat | typing.SupportsIndex = 10.0) -> None:
        """
        Leaves the group: later calls raise FailedPreconditionError at once. Waits for what this member has called, ``timeout`` seconds at most, and ends the rest on every member: DeadlineExceededError. When all members have closed it the group is no more and its name free. The node stays. Closing twice does nothing.
        """
    def flight_record(
        self, patience: typing.SupportsFloat | typing.SupportsIndex = 1.0
    ) -> dict[str, typing.Any]:
        """
        What this member has called last: 1,000 operations at most, each with when it was called, planned, moved its first and last byte and was over, what it waits for, and its outcome. A dictionary of the format square.flight_record/1 (docs/doctor.md). The node says what is waited for: blocks for ``patience`` seconds at most.
        """
    def gather(
        self,
        input: square.data.Data,
        output: square.data.Data | collections.abc.Sequence[square.data.Data] | None = None,
        root: typing.SupportsInt | typing.SupportsIndex = 0,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
        async_op: bool = False,
    ) -> Work | None:
        """
        Copies everybody's bytes to the root, which has a buffer for every rank, or one that is cut evenly.
        """
    def gather_async(
        self,
        input: square.data.Data,
        output: square.data.Data | collections.abc.Sequence[square.data.Data] | None = None,
        root: typing.SupportsInt | typing.SupportsIndex = 0,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
    ) -> Work:
        """
        As gather(async_op=True).
        """
    def grow(
        self,
        joiners: typing.SupportsInt | typing.SupportsIndex,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
    ) -> Communicator:
        """
        As shrink(), and so many others join behind the members, with Communicator.join(), in the order of their nodes' names.
        """
    def receive(
        self,
        data: square.data.Data,
        source: typing.SupportsInt | typing.SupportsIndex | None = None,
        tag: typing.SupportsInt | typing.SupportsIndex = 0,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
        async_op: bool = False,
    ) -> Work | None:
        """
        The other end of send(). Without a source: from whichever member sends first, see Work.source.
        """
    def receive_async(
        self,
        data: square.data.Data,
        source: typing.SupportsInt | typing.SupportsIndex | None = None,
        tag: typing.SupportsInt | typing.SupportsIndex = 0,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
    ) -> Work:
        """
        As receive(async_op=True).
        """
    def reduce(
        self,
        input: square.data.Data,
        output: square.data.Data | None = None,
        root: typing.SupportsInt | typing.SupportsIndex = 0,
        op: str = "sum",
        dtype: str | None = None,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
        async_op: bool = False,
    ) -> Work | None:
        """
        Adds everybody's elements into the root's output, or in place without one. ``op``: sum, product, min, max, average, and, or, xor. ``dtype`` names the elements where the buffer cannot, such as "bfloat16". The order of additions is the plan's, so the same plan gives the same bits.
        """
    def reduce_async(
        self,
        input: square.data.Data,
        output: square.data.Data | None = None,
        root: typing.SupportsInt | typing.SupportsIndex = 0,
        op: str = "sum",
        dtype: str | None = None,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
    ) -> Work:
        """
        As reduce(async_op=True).
        """
    def reduce_scatter(
        self,
        input: square.data.Data | collections.abc.Sequence[square.data.Data],
        output: square.data.Data,
        op: str = "sum",
        dtype: str | None = None,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
        async_op: bool = False,
    ) -> Work | None:
        """
        Adds everybody's part for rank r into the output of rank r. ``input`` is a buffer for every rank, or one that is cut evenly. See reduce().
        """
    def reduce_scatter_async(
        self,
        input: square.data.Data | collections.abc.Sequence[square.data.Data],
        output: square.data.Data,
        op: str = "sum",
        dtype: str | None = None,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
    ) -> Work:
        """
        As reduce_scatter(async_op=True).
        """
    def scatter(
        self,
        input: square.data.Data | collections.abc.Sequence[square.data.Data] | None,
        output: square.data.Data,
        root: typing.SupportsInt | typing.SupportsIndex = 0,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
        async_op: bool = False,
    ) -> Work | None:
        """
        Copies part r of the root's input, a buffer for every rank or one that is cut evenly, to rank r.
        """
    def scatter_async(
        self,
        input: square.data.Data | collections.abc.Sequence[square.data.Data] | None,
        output: square.data.Data,
        root: typing.SupportsInt | typing.SupportsIndex = 0,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
    ) -> Work:
        """
        As scatter(async_op=True).
        """
    def send(
        self,
        data: square.data.Data,
        to: typing.SupportsInt | typing.SupportsIndex,
        tag: typing.SupportsInt | typing.SupportsIndex = 0,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
        async_op: bool = False,
    ) -> Work | None:
        """
        Copies bytes to one member; returns when it has them. Messages with the same tag arrive in their order; use few tags.
        """
    def send_async(
        self,
        data: square.data.Data,
        to: typing.SupportsInt | typing.SupportsIndex,
        tag: typing.SupportsInt | typing.SupportsIndex = 0,
        timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0,
    ) -> Work:
        """
        As send(async_op=True).
        """
    def shrink(
        self, timeout: typing.SupportsFloat | typing.SupportsIndex = 300.0, allow_minority: bool = False
    ) -> Communicator:
        """
        The same group without the members that are gone: a Communicator that every other member gets, in the order of their ranks, also where this one has failed. Each of them calls it. Who is neither here nor gone, a process that is paused, is waited for, and then named by a DeadlineExceededError: call it again. FailedPreconditionError where the others went on without this member, or may have while its process was stopped. Where members may live that nobody hears, and go on elsewhere, more than half of all must be here, or half with the lowest rank; with ``allow_minority``, on all of them, any may, and two groups may go on that know nothing of each other. This communicator is closed.
        """
    @property
    def name(self) -> str:
        """
        Of the group: what shrink() and grow() return has another.
        """
    @property
    def origin(self) -> list[int]:
        """
        The ranks that the first of its members had in the group that this one was before; empty for a group that was none.
        """
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...

class Compression:
    """
    How an all_reduce of float32 sends less than it is given; also a text, such as "int8:128".
    """
    @staticmethod
    def bf16() -> Compression:
        """
        Every element rounded to bfloat16, and added as such.
        """
    @staticmethod
    def int8(block: typing.SupportsInt | typing.SupportsIndex = 256, feedback: bool = False) -> Compression:
        """
        8-bit integers; ``block`` elements, 16 to 65536, share a float32 scale.
        """
    @staticmethod
    def parse(text: str) -> Compression:
        """
        Of "none", "bf16", "int8", "int8:128", "int8:256:feedback", "top-k:0.01", "top-k:0.01:no-feedback".
        """
    @staticmethod
    def top_k(
        fraction: typing.SupportsFloat | typing.SupportsIndex = 0.01, feedback: bool = True
    ) -> Compression:
        """
        Only the elements with the largest magnitudes, with their indices.
        """
    def __eq__(self, arg0: typing.Any) -> bool: ...
    def __hash__(self) -> int: ...
    def __repr__(self) -> str: ...
    def __str__(self) -> str: ...
    @property
    def block(self) -> int: ...
    @property
    def error_feedback(self) -> bool:
        """
        Whether what is not sent is kept for the next call, in an ErrorFeedback.
        """
    @property
    def fraction(self) -> float: ...
    @property
    def kind(self) -> str: ...

class CompressionReport:
    """
    What compression did to what this member gave, in one call or, added up, in several.
    """
    def __add__(self, arg0: CompressionReport) -> CompressionReport: ...
    def __init__(self) -> None: ...
    def __repr__(self) -> str: ...
    @property
    def bytes_after(self) -> int:
        """
        Of what stands for them.
        """
    @property
    def bytes_before(self) -> int:
        """
        Of the elements.
        """
    @property
    def calls(self) -> int: ...
    @property
    def ratio(self) -> float:
        """
        How many times fewer bytes.
        """
    @property
    def relative_error(self) -> float:
        """
        The L2 norm of what was not sent, over that of what should have been; a NaN if there was one in it.
        """

class Controller:
    """
    The control plane, in this process: see square/controller.h.
    """
    def __enter__(self) -> Controller: ...
    def __exit__(self, *args: object) -> None: ...
    def __init__(
        self,
        scenario: Scenario | None = None,
        bind_address: str = "127.0.0.1:0",
        advertised_address: str = "",
        identity: Identity | os.PathLike[str] | str | None = None,
        store: os.PathLike[str] | str = "",
        *,
        standing_by: bool = False,
        insecure: bool = False,
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
    @property
    def has_stepped_down(self) -> bool:
        """
        Whether another controller has its store: this one is of no use any more.
        """
    @property
    def stands_by(self) -> bool:
        """
        Whether it waits for its store, or for those before it to be gone; see Node's successor.
        """

class Decoder:
    """
    Writes the data of a generation into a buffer or tensor.
    """
    def __init__(self, generation: Generation, data: square.data.Data) -> None: ...
    def add(self, block: CodedBlock) -> bool:
        """
        False where it says nothing new.
        """
    def finish(self) -> None:
        """
        Solves for what did not come as it is; writes halves that were coded as float32. Raises FailedPreconditionError "not yet decodable: rank 2 of 3".
        """
    @property
    def rank(self) -> int:
        """
        K are enough.
        """

class Encoder:
    """
    Makes coded blocks of a buffer or tensor, which it cuts into ``blocks`` blocks and keeps: do not change it meanwhile. ``field``: "gf256" gives every bit back, as does "gf65536"; "float32" computes with the numbers, of float32, float16 or bfloat16, and rounds.
    """
    def __init__(
        self,
        data: square.data.Data,
        blocks: typing.SupportsInt | typing.SupportsIndex,
        field: str = "gf256",
        number: typing.SupportsInt | typing.SupportsIndex = 0,
    ) -> None: ...
    def coded(
        self, coefficients: collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex]
    ) -> CodedBlock:
        """
        The sum of multiples of the blocks.
        """
    def next(self) -> CodedBlock:
        """
        The blocks as they are, then sums of them without end. Any K of the first 256 decode.
        """
    def systematic(self, index: typing.SupportsInt | typing.SupportsIndex) -> CodedBlock:
        """
        One of the blocks as it is.
        """
    @property
    def generation(self) -> Generation:
        """
        Its field is "gf256" where floats would lose too much: there is a NaN, an infinity, or one block's scale is 10,000 times another's.
        """

class ErrorFeedback:
    """
    What this member's compressed sums of one tensor did not send so far. Have one for every tensor, and pass it to every call for it. ``values``: what an earlier one had, as tobytes() gives it.
    """
    def __init__(self, values: square.data.Data | None = None) -> None: ...
    def __len__(self) -> int: ...
    def reset(self) -> None:
        """
        Forgets it all.
        """
    def tobytes(self) -> bytes:
        """
        A copy, as float32 elements.
        """
    @property
    def is_in_use(self) -> bool:
        """
        Whether an operation that is not over has it: another one may not.
        """
    @property
    def norm(self) -> float:
        """
        The L2 norm.
        """

class ExaminedNode:
    """
    A node as its controller and the node itself see it.
    """
    @property
    def address(self) -> str: ...
    @property
    def answered(self) -> bool: ...
    @property
    def clock_ahead_seconds(self) -> float: ...
    @property
    def clock_doubt_seconds(self) -> float: ...
    @property
    def connected(self) -> bool: ...
    @property
    def name(self) -> str: ...
    @property
    def peers(self) -> list[str]: ...
    @property
    def report_json(self) -> str: ...

class ExaminedOverlay:
    """
    What the nodes of an overlay say of it.
    """
    @property
    def control_protocol(self) -> int: ...
    @property
    def nodes(self) -> list[ExaminedNode]: ...
    @property
    def suspicions(self) -> list[Suspicion]: ...
    @property
    def version(self) -> str: ...

class FrontierPoint:
    """
    No plan that costs less than the bound gives every collective this much.
    """
    @property
    def cost_bound_usd_per_hour(self) -> float: ...
    @property
    def cost_usd_per_hour(self) -> float: ...
    @property
    def level_bps(self) -> float: ...

class Generation:
    """
    A run of bytes that is cut into ``blocks`` blocks of one length, to be coded.
    """
    def __eq__(self, arg0: typing.Any) -> bool: ...
    def __hash__(self) -> int: ...
    def __init__(
        self,
        blocks: typing.SupportsInt | typing.SupportsIndex,
        data_bytes: typing.SupportsInt | typing.SupportsIndex,
        field: str = "gf256",
        number: typing.SupportsInt | typing.SupportsIndex = 0,
    ) -> None: ...
    def __repr__(self) -> str: ...
    @property
    def block_bytes(self) -> int:
        """
        Of a block, padding included.
        """
    @property
    def blocks(self) -> int:
        """
        How many decode: K.
        """
    @property
    def data_bytes(self) -> int: ...
    @property
    def field(self) -> str: ...
    @property
    def number(self) -> int:
        """
        The caller's own.
        """

class Identity:
    """
    Who a process is to others, and whom it believes: see square/identity.h.
    """
    @staticmethod
    def from_pem(pem: str) -> Identity:
        """
        The same as another process has made: whoever has its pem is believed in its place.
        """
    @staticmethod
    def make_own() -> Identity:
        """
        A key of its own, in memory, which those believe that were told its fingerprint.
        """
    def __init__(self, folder: os.PathLike[str] | str) -> None:
        """
        Of a folder that `square ca issue` has written.
        """
    def believe(self, fingerprints: collections.abc.Sequence[str]) -> None:
        """
        Believes the holders of these certificates, whatever they name.
        """
    @property
    def fingerprint(self) -> str:
        """
        SHA-256 of the certificate, in hexadecimal.
        """
    @property
    def name(self) -> str | None:
        """
        spiffe://DOMAIN/ROLE/NAME; None of one that was made here.
        """
    @property
    def pem(self) -> str:
        """
        Key and certificate, a secret; empty of one in a folder.
        """

class LevelGap:
    """
    How far a level is from what its duals prove.
    """
    @property
    def bound_bps(self) -> float: ...
    @property
    def level(self) -> int: ...
    @property
    def lp_gap(self) -> float: ...
    @property
    def lp_level_bps(self) -> float: ...
    @property
    def rate_gap(self) -> float: ...
    @property
    def rate_level_bps(self) -> float: ...

class LimitDemand:
    """
    What one collective must bring across a cut.
    """
    @property
    def collective(self) -> int: ...
    @property
    def crossings(self) -> float:
        """
        Bits that cross for each of its own.
        """
    @property
    def needs_bps(self) -> float:
        """
        Crossings times rate.
        """
    @property
    def rate_bps(self) -> float:
        """
        That it keeps.
        """

class LimitPart:
    """
    A collective in a proof: its length times its rate is what it uses.
    """
    @property
    def collective(self) -> int: ...
    @property
    def is_earlier(self) -> bool:
        """
        It stopped at a lower level.
        """
    @property
    def length(self) -> float: ...
    @property
    def lp_rate_bps(self) -> float: ...
    @property
    def rate_bps(self) -> float: ...
    @property
    def weight(self) -> float: ...

class LimitProof:
    """
    The sum that proves a level: see LimitProof in square/limits.h.
    """
    @property
    def active(self) -> float:
        """
        Lengths times weights of the others.
        """
    @property
    def bound_bps(self) -> float:
        """
        Of the rate per unit of weight: (worth - earlier) / active.
        """
    @property
    def budget_length(self) -> float: ...
    @property
    def budget_usd_per_hour(self) -> float: ...
    @property
    def earlier(self) -> float:
        """
        What collectives of lower levels use of it.
        """
    @property
    def parts(self) -> list[LimitPart]: ...
    @property
    def resources(self) -> list[LimitedResource]: ...
    @property
    def worth(self) -> float:
        """
        Capacities, limits and budget, each times its length.
        """

class LimitedResource:
    """
    A link, or the limit of a node over all links that leave it (egress) or enter it (ingress). Rates are bits per second.
    """
    @property
    def capacity_bps(self) -> float:
        """
        What a bound counts: an unlimited link is as wide as the widest of the plan that is limited.
        """
    @property
    def kind(self) -> str:
        """
        "link", "egress" or "ingress".
        """
    @property
    def length(self) -> float:
        """
        Its dual; 0 where it has none.
        """
    @property
    def load_bps(self) -> float: ...
    @property
    def loads(self) -> dict[int, float]:
        """
        What streams put on it, by session.
        """
    @property
    def nodes(self) -> tuple[str, ...]:
        """
        From and to of a link, or the node.
        """

class LimitingCut:
    """
    A set of nodes that data must enter, and all that crosses into it.
    """
    @property
    def bound_bps(self) -> float:
        """
        What it leaves to the collective while the others keep theirs.
        """
    @property
    def carried_bps(self) -> float:
        """
        By the links, within the limits of their nodes.
        """
    @property
    def demands(self) -> list[LimitDemand]: ...
    @property
    def into(self) -> list[str]: ...
    @property
    def is_left(self) -> bool:
        """
        The certificate names the other side, which data of a reduce leaves.
        """
    @property
    def is_proof(self) -> bool:
        """
        Alone it proves the bound of the collective.
        """
    @property
    def length(self) -> float:
        """
        How much of the proof it is; 0 under a policy without levels.
        """
    @property
    def links(self) -> list[LimitedResource]:
        """
        Into it, the most loaded first.
        """
    @property
    def node_limits(self) -> list[LimitedResource]:
        """
        Of nodes at the links' ends: those that leave less than the links carry, or have a length.
        """
    @property
    def sessions(self) -> list[int]:
        """
        Those that have it in the proof.
        """

class Limits:
    """
    Why a collective, or one of its sessions, has no higher rate.
    """
    @property
    def bound_bps(self) -> float:
        """
        No plan gives the collective more while the others keep their rates.
        """
    @property
    def collective(self) -> int: ...
    @property
    def cut_count(self) -> int:
        """
        With those that ``cuts`` leaves out.
        """
    @property
    def cuts(self) -> list[LimitingCut]:
        """
        The heaviest, or the narrowest, first.
        """
    @property
    def held_by(self) -> list[LimitedResource]:
        """
        The links and limits of nodes that hold it back.
        """
    @property
    def is_held_by_budget(self) -> bool: ...
    @property
    def keeps_pace_with(self) -> list[int]:
        """
        Sessions whose cuts these are, where the session has none of its own.
        """
    @property
    def length(self) -> float:
        """
        Of all cuts.
        """
    @property
    def level(self) -> int | None:
        """
        Its position in ``plan.certificate.levels``.
        """
    @property
    def proof(self) -> LimitProof | None: ...
    @property
    def rate_bps(self) -> float:
        """
        Of the collective; without streams what the linear program allows.
        """
    @property
    def reason(self) -> str:
        """
        "idle", "required", "level", "cut", "policy" or "unproven": LimitReason in square/limits.h.
        """
    @property
    def session(self) -> int | None:
        """
        None: of the whole collective.
        """

class LinkInformation:
    """
    What is known of a link of an overlay; times in seconds, 0: not known.
    """
    @property
    def age(self) -> float: ...
    @property
    def from_node(self) -> str: ...
    @property
    def given_bps(self) -> float: ...
    @property
    def history(self) -> list[CapacityPoint]: ...
    @property
    def is_fixed(self) -> bool: ...
    @property
    def is_probed(self) -> bool: ...
    @property
    def latency(self) -> float: ...
    @property
    def measured_bps(self) -> float: ...
    @property
    def planned_bps(self) -> float: ...
    @property
    def price_usd_per_gb(self) -> float: ...
    @property
    def round_trip(self) -> float: ...
    @property
    def to_node(self) -> str: ...

class LinkView:
    """
    A directed link of a topology; latency in seconds.
    """
    @property
    def capacity_bps(self) -> float: ...
    @property
    def capacity_stddev_bps(self) -> float: ...
    @property
    def from_node(self) -> str: ...
    @property
    def latency(self) -> float: ...
    @property
    def price_usd_per_gb(self) -> float: ...
    @property
    def to_node(self) -> str: ...

class MemberHost:
    """
    Where members live: a Node of this process, or an AttachedNode.
    """

class Node(MemberHost):
    """
    A node of the overlay, in this process: see square/node.h.
    """
    def __enter__(self) -> Node: ...
    def __exit__(self, *args: object) -> None: ...
    def __init__(
        self,
        name: str,
        controller: str | None = None,
        bind_address: str = "127.0.0.1:0",
        advertised_address: str = "",
        identity: Identity | os.PathLike[str] | str | None = None,
        insecure: bool = False,
        window_bytes: typing.SupportsInt | typing.SupportsIndex = 268435456,
        paced: bool = True,
        successor: Controller | None = None,
        standing: typing.SupportsInt | typing.SupportsIndex = 0,
        sealed: bool = True,
    ) -> None:
        """
        Joins the overlay of the controller at host:port; without one the node is alone. ``successor``: a Controller of this process that follows when those before it are gone, by ``standing``: one that stands by, or the first itself. With an identity that an authority has signed blocks are sealed from their sources to their destinations, unless ``sealed`` is False: on all nodes of a group alike.
        """
    def gateway_statistics(self) -> dict[str, int]:
        """
        What the gateway serves now; zeros without one.
        """
    def metrics(self) -> dict[str, typing.Any]:
        """
        What this node has carried and was planned to carry, in one snapshot: "node", "epoch" (None before the first plan), "totals" (as statistics()), and lists of dicts, "links", "sessions" and "tenants". Counters only grow; rates are bits per second, None for no limit. docs/monitoring.md names every key.
        """
    def serve_gateway(
        self,
        path: os.PathLike[str] | str = "",
        *,
        users: collections.abc.Sequence[tuple[typing.SupportsInt | typing.SupportsIndex, str]] = [],
        max_attachments: typing.SupportsInt | typing.SupportsIndex = 256,
        max_groups: typing.SupportsInt | typing.SupportsIndex = 256,
        max_operations: typing.SupportsInt | typing.SupportsIndex = 4096,
        tenant_staging_bytes: typing.SupportsInt | typing.SupportsIndex = 1073741824,
        staging_bytes: typing.SupportsInt | typing.SupportsIndex = 4294967296,
        shared_memory: bool = True,
    ) -> str:
        """
        Serves other processes as a gateway until the node stops; returns the socket's path.
        """
    def statistics(self) -> dict[str, int]: ...
    def stop(self) -> None: ...
    @property
    def address(self) -> str: ...
    @property
    def controller(self) -> str:
        """
        The address of the controller that it follows now; empty for a node alone.
        """
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
    @property
    def protocol_version(self) -> int: ...

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

class OuterOptimizer:
    """
    The asynchronous outer optimizer of Di-PS in this process: it averages what workers push, without outliers, and steps by Nesterov's method. ``parameters``: float32, copied. ``delay`` above 1 is delayed Nesterov, ``delay_share`` its c. ``clip``: the longest average, None for no bound; ``clip_scope``: "global" or "shard". ``penalty``: (alpha, beta, warmup, window), a dict of some of these, or None. ``norms``: "root" of the shards' squares or their "sum". ``shards``: sizes in elements. ``threads``: 0 for one a processor. One call at a time.
    """
    def __init__(
        self,
        parameters: square.data.Data,
        *,
        lr: typing.SupportsFloat | typing.SupportsIndex = 0.7,
        momentum: typing.SupportsFloat | typing.SupportsIndex = 0.8,
        delay: typing.SupportsInt | typing.SupportsIndex = 1,
        delay_share: typing.SupportsFloat | typing.SupportsIndex = 0.0,
        clip: typing.SupportsFloat | typing.SupportsIndex | None = 1.0,
        clip_scope: str = "global",
        penalty: tuple[
            typing.SupportsFloat | typing.SupportsIndex,
            typing.SupportsFloat | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
        ]
        | collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex]
        | None = (0.02, 3.0, 120, 1024),
        norms: str = "root",
        divide_by_live_workers: bool = False,
        shards: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] = [],
        threads: typing.SupportsInt | typing.SupportsIndex = 0,
    ) -> None: ...
    def __len__(self) -> int: ...
    def forget(self, worker: str) -> None:
        """
        When a worker that left comes back, it is new.
        """
    def round(
        self,
        contributions: collections.abc.Sequence[
            tuple[str, typing.SupportsInt | typing.SupportsIndex, square.data.Data]
        ],
        basis: str = "base",
        live_workers: typing.SupportsInt | typing.SupportsIndex = 0,
    ) -> OuterRound:
        """
        Takes contributions (worker, tokens, float32 values). The values are pseudo-gradients ("base": what the worker began with minus what it has) or the worker's parameters ("current"). ``live_workers`` counts where divide_by_live_workers is set.
        """
    @property
    def momentum(self) -> memoryview:
        """
        A read-only copy, of float32.
        """
    @property
    def parameters(self) -> memoryview:
        """
        A read-only copy, of float32; numpy.asarray() takes it.
        """
    @property
    def rounds(self) -> int:
        """
        That have changed the parameters.
        """

class OuterOptions:
    """
    How an outer optimizer steps, checked: as the arguments of OuterOptimizer.
    """
    def __init__(
        self,
        *,
        lr: typing.SupportsFloat | typing.SupportsIndex = 0.7,
        momentum: typing.SupportsFloat | typing.SupportsIndex = 0.8,
        delay: typing.SupportsInt | typing.SupportsIndex = 1,
        delay_share: typing.SupportsFloat | typing.SupportsIndex = 0.0,
        clip: typing.SupportsFloat | typing.SupportsIndex | None = 1.0,
        clip_scope: str = "global",
        penalty: tuple[
            typing.SupportsFloat | typing.SupportsIndex,
            typing.SupportsFloat | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
        ]
        | collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex]
        | None = (0.02, 3.0, 120, 1024),
        norms: str = "root",
        divide_by_live_workers: bool = False,
    ) -> None: ...

class OuterRound:
    """
    What an OuterOptimizer's round did. The lists have an item for each contribution.
    """
    @property
    def decisions(self) -> list[str]:
        """
        "taken", "outlier", "non-finite" or "no-tokens".
        """
    @property
    def factor(self) -> float:
        """
        What the average was multiplied with; of several shards' factors the least.
        """
    @property
    def norm(self) -> float:
        """
        Of the average, before clipping.
        """
    @property
    def norms(self) -> list[float]:
        """
        L2 norms of the pseudo-gradients; not finite where one of their elements is not.
        """
    @property
    def scores(self) -> list[float]:
        """
        How many deviations above its worker's mean; 0 in a warm-up and where it was not asked.
        """
    @property
    def updated(self) -> bool:
        """
        Whether the parameters have changed.
        """
    @property
    def weights(self) -> list[float]:
        """
        Tokens over those of all that are taken; 0 for what is not taken.
        """

class OverlayInformation:
    """
    A controller's topology, and what was measured.
    """
    @property
    def links(self) -> list[LinkInformation]: ...
    @property
    def topology(self) -> Topology: ...

class ParameterMaster:
    """
    A master of parameter servers: see square.ps.Master.
    """
    def __init__(
        self,
        *,
        bind_address: str,
        advertised_address: str,
        identity: Identity | os.PathLike[str] | str | None,
        insecure: bool,
        controller: str,
        scenario: Scenario | None,
        outer: OuterOptions,
        servers: typing.SupportsInt | typing.SupportsIndex,
        quorum: typing.SupportsInt | typing.SupportsIndex,
        grace: typing.SupportsFloat | typing.SupportsIndex | None,
        basis: str,
        bfloat16: bool,
        chunks: typing.SupportsInt | typing.SupportsIndex,
        max_staleness: typing.SupportsInt | typing.SupportsIndex | None,
        moves_shards: bool,
        lease: typing.SupportsFloat | typing.SupportsIndex,
        step_timeout: typing.SupportsFloat | typing.SupportsIndex,
    ) -> None: ...
    def status(self) -> dict[str, typing.Any]: ...
    def stop(self) -> None: ...
    @property
    def address(self) -> str: ...
    @property
    def controller(self) -> str: ...

class ParameterServer:
    """
    See square.ps.Server.
    """
    def __init__(
        self,
        *,
        name: str,
        master: str,
        identity: Identity | os.PathLike[str] | str | None,
        insecure: bool,
        bind_address: str,
        advertised_address: str,
        connect_timeout: typing.SupportsFloat | typing.SupportsIndex,
        snapshots: str,
        keep: typing.SupportsInt | typing.SupportsIndex,
        threads: typing.SupportsInt | typing.SupportsIndex,
        capacity_bps: typing.SupportsFloat | typing.SupportsIndex,
    ) -> None: ...
    def check(self) -> None:
        """
        Raises why it serves no more.
        """
    def stop(self) -> None: ...
    def wait_for_end(self, timeout: typing.SupportsFloat | typing.SupportsIndex) -> bool:
        """
        Whether it has ended within so many seconds.
        """
    @property
    def serves(self) -> bool: ...
    @property
    def version(self) -> int: ...

class ParameterWorker:
    """
    See square.ps.Worker.
    """
    def __init__(
        self,
        *,
        model: collections.abc.Sequence[
            tuple[str, str, collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]]
        ],
        tensors: collections.abc.Sequence[square.data.Data],
        name: str,
        master: str,
        identity: Identity | os.PathLike[str] | str | None,
        insecure: bool,
        bind_address: str,
        advertised_address: str,
        connect_timeout: typing.SupportsFloat | typing.SupportsIndex,
    ) -> None: ...
    def begin(
        self,
        tensors: collections.abc.Sequence[square.data.Data],
        timeout: typing.SupportsFloat | typing.SupportsIndex,
    ) -> None: ...
    def consumed(
        self,
        tokens: typing.SupportsInt | typing.SupportsIndex,
        chunks: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
    ) -> None: ...
    def lease(
        self,
        chunks: typing.SupportsInt | typing.SupportsIndex,
        timeout: typing.SupportsFloat | typing.SupportsIndex,
        is_last: bool,
    ) -> list[int] | None:
        """
        None where none was free in time, unless it is the last attempt: then it raises.
        """
    def leave(self) -> None: ...
    def pull(
        self,
        tensors: collections.abc.Sequence[square.data.Data],
        timeout: typing.SupportsFloat | typing.SupportsIndex,
    ) -> tuple[str, int, str, str]: ...
    def push(self, tensors: collections.abc.Sequence[square.data.Data]) -> None: ...
    def rebase(self, tensors: collections.abc.Sequence[square.data.Data]) -> None: ...
    def wait(self, timeout: typing.SupportsFloat | typing.SupportsIndex) -> bool: ...
    def wait_for_first(self, timeout: typing.SupportsFloat | typing.SupportsIndex) -> bool: ...
    @property
    def can_push(self) -> bool: ...
    @property
    def has_work(self) -> bool: ...
    @property
    def tokens(self) -> int: ...
    @property
    def version(self) -> int: ...

class Plan:
    """
    Who sends what over which trees at what rate. Immutable.
    """
    @staticmethod
    def from_json(text: str) -> Plan: ...
    def __repr__(self) -> str: ...
    def to_json(self) -> str: ...
    @property
    def assumed_bounds(self) -> list[int]:
        """
        The collectives whose bound rests on that: a better plan may exist.
        """
    @property
    def assumed_capacity_bps(self) -> float:
        """
        What each of them is planned as: the lowest capacity that there is, else 1 Gbit/s. 0 without any.
        """
    @property
    def assumed_links(self) -> int:
        """
        Links without a capacity, but for those to be avoided.
        """
    @property
    def budget_usd_per_hour(self) -> float | None: ...
    @property
    def certificate(self) -> PlanCertificate: ...
    @property
    def changes(self) -> list[PlanChange] | None: ...
    @property
    def collectives(self) -> list[PlanCollective]: ...
    @property
    def cost_usd_per_hour(self) -> float: ...
    @property
    def epoch(self) -> int: ...
    @property
    def headroom(self) -> PlanHeadroom | None: ...
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
    def provisional(self) -> bool: ...
    @property
    def realised(self) -> bool: ...
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
    def cost_bound_usd_per_hour(self) -> float | None: ...
    @property
    def cuts(self) -> list[PlanCut]: ...
    @property
    def level_bound_bps(self) -> float | None: ...
    @property
    def levels(self) -> list[PlanLevel]: ...

class PlanChange:
    """
    How a collective differs from the plan before.
    """
    @property
    def collective(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def rate_after_bps(self) -> float: ...
    @property
    def rate_before_bps(self) -> float: ...

class PlanCode:
    """
    A linear code for what trees cannot carry of a session.
    """
    @property
    def blocks(self) -> int: ...
    @property
    def field(self) -> str: ...
    @property
    def rate_bps(self) -> float: ...
    @property
    def redundancy(self) -> int:
        """
        So many of the streams that come to a member may be lost.
        """
    @property
    def sinks(self) -> list[PlanSink]: ...

class PlanCollective:
    """
    One collective of a plan.
    """
    @property
    def bound_bps(self) -> float: ...
    @property
    def completion_seconds(self) -> float: ...
    @property
    def cost_usd_per_hour(self) -> float: ...
    @property
    def group(self) -> str:
        """
        The group of processes that calls it; empty where a scenario asks for it.
        """
    @property
    def id(self) -> int: ...
    @property
    def lp_rate_bps(self) -> float: ...
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

class PlanHeadroom:
    """
    The rates of the same scenario without headroom.
    """
    @property
    def deviations(self) -> float: ...
    @property
    def nominal_min_rate_bps(self) -> float: ...
    @property
    def nominal_total_rate_bps(self) -> float: ...

class PlanLevel:
    """
    The proof that a freezing level is no higher: square/plan.h.
    """
    @property
    def bound_bps(self) -> float: ...
    @property
    def budget(self) -> float: ...
    @property
    def collectives(self) -> list[int]: ...
    @property
    def egress(self) -> list[tuple[str, float]]: ...
    @property
    def ingress(self) -> list[tuple[str, float]]: ...
    @property
    def links(self) -> list[tuple[str, str, float]]: ...
    @property
    def packings(self) -> list[PlanPacking]: ...

class PlanLink:
    """
    A link and its load; latency in seconds.
    """
    @property
    def avoided(self) -> bool: ...
    @property
    def capacity_bps(self) -> float: ...
    @property
    def from_node(self) -> str: ...
    @property
    def latency(self) -> float: ...
    @property
    def load_bps(self) -> float: ...
    @property
    def price_usd_per_gb(self) -> float: ...
    @property
    def to_node(self) -> str: ...

class PlanNode:
    @property
    def egress_bps(self) -> float: ...
    @property
    def ingress_bps(self) -> float: ...
    @property
    def name(self) -> str: ...
    @property
    def relays(self) -> bool: ...

class PlanPacking:
    """
    Cuts for one session: (far side, length).
    """
    @property
    def cuts(self) -> list[tuple[list[str], float]]: ...
    @property
    def session(self) -> int: ...

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
    def codes(self) -> list[PlanCode]: ...
    @property
    def collective(self) -> int: ...
    @property
    def id(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def lp_rate_bps(self) -> float: ...
    @property
    def max_latency(self) -> list[float | None]: ...
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

class PlanSink:
    """
    A member that solves for the blocks of a code.
    """
    @property
    def byte_inverse(self) -> list[list[float]]:
        """
        Of a code of floats: that of its rows over bytes.
        """
    @property
    def inverse(self) -> list[list[float]]: ...
    @property
    def member(self) -> str: ...
    @property
    def streams(self) -> list[int]: ...

class PlanStream:
    """
    A tree with a rate; links in feeding order.
    """
    @property
    def adds(self) -> list[tuple[int, float]]:
        """
        The session's streams that are added at its origin, each with its factor.
        """
    @property
    def byte_factors(self) -> list[float]:
        """
        Of a code of floats: the factors over bytes, for blocks that floats would spoil.
        """
    @property
    def byte_row(self) -> list[float]:
        """
        Of a code of floats: its row over bytes.
        """
    @property
    def code(self) -> int | None:
        """
        Position of its code in the session's codes.
        """
    @property
    def coded(self) -> bool: ...
    @property
    def links(self) -> list[tuple[str, str]]: ...
    @property
    def origin(self) -> str:
        """
        Where it begins: the root, or where a coded one is added up.
        """
    @property
    def rate_bps(self) -> float: ...
    @property
    def row(self) -> list[float]:
        """
        Which sum of a generation's blocks it carries.
        """

class PlanTenant:
    @property
    def name(self) -> str: ...
    @property
    def open_bytes(self) -> int | None:
        """
        The same in bytes.
        """
    @property
    def open_operations(self) -> int | None:
        """
        Calls that may be under way on a node at once; None: no limit.
        """
    @property
    def rate_bps(self) -> float: ...
    @property
    def weight(self) -> float: ...

class Planner:
    """
    Plans one scenario after another, each from where the plan before ended. What is other is found by comparison: nodes by name, collectives by id. Threads may share one; they wait for one another.
    """
    def __init__(self) -> None: ...
    def plan(
        self,
        scenario: Scenario,
        streams: bool = True,
        timeout: typing.SupportsFloat | typing.SupportsIndex | datetime.timedelta | None = None,
    ) -> Plan:
        """
        Plans the scenario as it is now; ``Plan.changes`` says what is other than in the plan before. After an error the planner goes on from the last plan that it made. Raises what ``square.plan`` raises; lets go of the interpreter lock while it computes.
        """

class Policy:
    """
    How to plan; docs/scenario.md says what each part means. All from ``objective`` on is for the policy "exact"; what is wrong is said where the policy meets a scenario.
    """
    def __init__(
        self,
        name: str | None = None,
        *,
        shots: int = 3,
        paths: str = "shortest",
        fairness: str = "tenant",
        objective: str = "fair",
        gap: float = 1e-06,
        deadline: float | datetime.timedelta | None = None,
        max_streams: int = 0,
        coding: str = "exact",
        budget_usd_per_hour: float | None = None,
        headroom: float = 0.0,
        avoid_nodes: collections.abc.Sequence[str] = [],
        avoid_links: collections.abc.Sequence[tuple[str, str]] = [],
    ) -> None:
        """
        Without a name it is "exact", and takes neither ``shots`` nor ``paths``, as in a file.
        """
    def replace(
        self,
        name: str | None = None,
        *,
        shots: int | None = None,
        paths: str | None = None,
        fairness: str | None = None,
        objective: str | None = None,
        gap: float | None = None,
        deadline: float | datetime.timedelta | None = None,
        max_streams: int | None = None,
        coding: str | None = None,
        budget_usd_per_hour: float | None = None,
        headroom: float | None = None,
        avoid_nodes: collections.abc.Sequence[str] | None = None,
        avoid_links: collections.abc.Sequence[tuple[str, str]] | None = None,
    ) -> Policy:
        """
        The same policy with parts replaced; None leaves a part as it is. Under the name of a policy that knows none, the gap and the deadline go: they say how to solve, not what is wanted. ``shots`` and ``paths`` need a policy that was named, here or before.
        """
    @property
    def avoid_links(self) -> list[tuple[str, str]]:
        """
        Links that carry nothing, each as (from, to).
        """
    @property
    def avoid_nodes(self) -> list[str]:
        """
        Nodes that relay nothing.
        """
    @property
    def budget_usd_per_hour(self) -> float | None:
        """
        What all traffic together may cost.
        """
    @property
    def coding(self) -> str:
        """
        Codes where trees fall short: "exact", "float32" or "off".
        """
    @property
    def deadline(self) -> float | None:
        """
        Seconds, after which the best plan so far comes back.
        """
    @property
    def fairness(self) -> str:
        """
        What is treated alike: "tenant" or "collective".
        """
    @property
    def gap(self) -> float:
        """
        How far from its proven bound a rate may stay, relative.
        """
    @property
    def headroom(self) -> float:
        """
        Plans for each capacity less so many of its standard deviations.
        """
    @property
    def max_streams(self) -> int:
        """
        Trees a session at most; 0: as many as the optimum takes.
        """
    @property
    def name(self) -> str: ...
    @property
    def objective(self) -> str:
        """
        "fair": the fairest rates; "cost": the required ones for the least money.
        """
    @property
    def paths(self) -> str:
        """
        Feasible paths: "shortest:7", "widest:2", "all".
        """
    @property
    def shots(self) -> int:
        """
        Rounds of max-min.
        """

class Reachability:
    """
    Groups of nodes that all reach one another.
    """
    @property
    def groups(self) -> list[list[str]]:
        """
        The largest first.
        """
    @property
    def unreachable(self) -> list[list[int]] | None:
        """
        By group, the groups that no path leads to; None where there are too many groups.
        """

class Recoder:
    """
    Keeps blocks of a generation and mixes them, without decoding.
    """
    def __init__(self, generation: Generation) -> None: ...
    def add(self, block: CodedBlock) -> bool:
        """
        False where it says nothing new; else it is kept.
        """
    def coded(
        self, coefficients: collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex]
    ) -> CodedBlock:
        """
        The sum of multiples of those that are kept, in the order in which they came.
        """
    def next(self, seed: typing.SupportsInt | typing.SupportsIndex = 0) -> CodedBlock:
        """
        A random sum. Nodes that mix the same blocks need different seeds.
        """
    @property
    def rank(self) -> int:
        """
        How many blocks are kept.
        """

class Scenario:
    """
    An overlay, a policy, tenants and their collectives.
    """
    @staticmethod
    def parse(text: str, source_name: str = "<text>", directory: str = ".") -> Scenario: ...
    @staticmethod
    def read(path: os.PathLike[str] | str, units: str | None = None) -> Scenario:
        """
        units, as Topology.read has it, overrides the file's.
        """
    def __init__(
        self,
        topology: Topology,
        policy: Policy = ...,
        tenants: collections.abc.Sequence[Tenant] = [],
        collectives: collections.abc.Sequence[Collective] = [],
        name: str = "scenario",
    ) -> None: ...
    def add_collective(self, collective: Collective) -> int:
        """
        Adds it and returns its id: the largest that there is plus one. A tenant that is new has weight 1. The scenario stays as it was where the collective makes no sense.
        """
    def copy(self) -> Scenario: ...
    def remove_collective(self, id: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        The others keep their ids.
        """
    def remove_node(self, name: str) -> None:
        """
        Takes the node out of the topology with its links, and out of every collective. A collective that had it for root, or that has fewer than 2 members then, goes too; the others keep their ids.
        """
    def set_capacity(
        self, from_node: str, to_node: str, capacity_bps: typing.SupportsFloat | typing.SupportsIndex
    ) -> None: ...
    def set_required_rate(
        self,
        id: typing.SupportsInt | typing.SupportsIndex,
        required_bps: typing.SupportsFloat | typing.SupportsIndex | None,
    ) -> None:
        """
        For the objective "cost"; None takes it away. What makes no sense is said when it is planned.
        """
    def set_size(
        self,
        id: typing.SupportsInt | typing.SupportsIndex,
        size_bytes: typing.SupportsInt | typing.SupportsIndex,
    ) -> None:
        """
        Of the buffer, as Collective has it.
        """
    @property
    def collectives(self) -> list[CollectiveView]: ...
    @property
    def name(self) -> str: ...
    @property
    def policy(self) -> Policy:
        """
        A copy: assign another to change it. Names in it must be in the topology.
        """
    @policy.setter
    def policy(self, arg1: Policy) -> None: ...
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

class Suspicion:
    """
    Neighbours that differ about blocks that went between them.
    """
    @property
    def count(self) -> int: ...
    @property
    def from_node(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def session(self) -> int: ...
    @property
    def to_node(self) -> str: ...

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
        capacity_stddev_bps: typing.SupportsFloat | typing.SupportsIndex = 0.0,
    ) -> Topology: ...
    @staticmethod
    def read(path: os.PathLike[str] | str, units: str | None = None) -> Topology:
        """
        Reads GML, GraphML, CSV or TOML, by the file's extension. units, such as "Mbit/s", is the unit of numbers that have none; "none": they are no speeds.
        """
    def __init__(self) -> None: ...
    def add_link(
        self,
        from_node: str,
        to_node: str,
        capacity_bps: typing.SupportsFloat | typing.SupportsIndex | None = None,
        latency: typing.SupportsFloat | typing.SupportsIndex = 0.0,
        price_usd_per_gb: typing.SupportsFloat | typing.SupportsIndex = 0.0,
        capacity_stddev_bps: typing.SupportsFloat | typing.SupportsIndex = 0.0,
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
    def reachability(self) -> Reachability:
        """
        Which nodes can reach which.
        """
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
    def add_done_callback(self, callback: collections.abc.Callable[[], None]) -> None:
        """
        Calls ``callback()`` once when it is over, soon after if it is already, on a thread that all callbacks share while none of them waits. A callback may wait for other operations, whose callbacks may wait in turn, 64 levels deep; a deeper one gets ResourceExhaustedError here. Exceptions are reported as unraisable.
        """
    def cancel(self) -> None:
        """
        Ends it on every member, unless it is over.
        """
    def wait(self) -> None:
        """
        Waits until it is over; raises if it failed. Ctrl-C cancels it.
        """
    def wait_for(self, seconds: typing.SupportsFloat | typing.SupportsIndex) -> bool:
        """
        Whether it was over within that time.
        """
    @property
    def compression_report(self) -> CompressionReport | None:
        """
        What compression did, once a compressed all_reduce is over; otherwise None.
        """
    @property
    def is_done(self) -> bool: ...
    @property
    def source(self) -> int | None:
        """
        The rank that sent what a receive from any source got; otherwise None.
        """

def ask_parameter_master(
    address: str,
    identity: Identity | os.PathLike[str] | str | None = None,
    timeout: typing.SupportsFloat | typing.SupportsIndex = 5.0,
) -> dict[str, typing.Any]: ...
def attach(
    gateway: os.PathLike[str] | str,
    *,
    tenant: str = "",
    shared_memory: bool = True,
    timeout: typing.SupportsFloat | typing.SupportsIndex = 5.0,
) -> AttachedNode:
    """
    Attaches this process to a gateway; the node that it returns has this process's members.
    """

def certified_gaps(plan: Plan) -> list[LevelGap]:
    """
    What the duals of each level prove, and how far the rates are from it.
    """

def cost_frontier(
    scenario: Scenario,
    points: typing.SupportsInt | typing.SupportsIndex,
    timeout: typing.SupportsFloat | typing.SupportsIndex | datetime.timedelta | None = None,
) -> list[FrontierPoint]:
    """
    Plans with levels evenly spaced up to the largest, as cheap as can be: see square/planner.h.
    """

def examine_nodes(
    controller: str,
    identity: Identity | os.PathLike[str] | str | None = None,
    timeout: typing.SupportsFloat | typing.SupportsIndex = 10.0,
) -> ExaminedOverlay:
    """
    Has every node of the overlay of the controller at host:port look at itself and its peers.
    """

def find_violations(plan: Plan) -> list[str]:
    """
    Every way in which the plan breaks a rule; empty for a valid plan.
    """

def is_loopback(address: str) -> bool:
    """
    Whether only this machine reaches a host, or host:port: whatever the system finds under it is a loopback address. False for a name that it does not know.
    """

def limits(
    plan: Plan,
    session: typing.SupportsInt | typing.SupportsIndex | None = None,
    *,
    collective: typing.SupportsInt | typing.SupportsIndex | None = None,
    max_cuts: typing.SupportsInt | typing.SupportsIndex = 3,
) -> Limits:
    """
    Why a session, or a whole collective, has no higher rate: the links, limits of nodes and cuts that hold it back, with the sum that proves it. Believes what the plan claims (see ``validate``). Raises NotFoundError for what the plan does not have, InvalidArgumentError where the plan names what is not there, or unless one of the two is given. Lets go of the interpreter lock.
    """

def limits_of_collectives(
    plan: Plan, *, max_cuts: typing.SupportsInt | typing.SupportsIndex = 3
) -> list[Limits]:
    """
    The same of every collective, in the order of the plan, which is read once.
    """

def list_links(
    controller: str,
    identity: Identity | os.PathLike[str] | str | None = None,
    timeout: typing.SupportsFloat | typing.SupportsIndex = 5.0,
) -> OverlayInformation:
    """
    The topology of the controller at host:port, and what was measured of its links.
    """

def list_nodes(
    controller: str,
    identity: Identity | os.PathLike[str] | str | None = None,
    timeout: typing.SupportsFloat | typing.SupportsIndex = 5.0,
) -> list[NodeInformation]:
    """
    The nodes of the overlay of the controller at host:port, and which of them are connected.
    """

def load_parameter_snapshot(path: str) -> dict[str, typing.Any]:
    """
    See square.ps.read_snapshot.
    """

def make_plan(
    scenario: Scenario,
    streams: bool = True,
    timeout: typing.SupportsFloat | typing.SupportsIndex | datetime.timedelta | None = None,
) -> PlanResult:
    """
    Plans a scenario: see square/planner.h. Without streams only lp rates and their certificate. Raises DeadlineExceededError after ``timeout``, seconds or a timedelta. Ctrl-C ends it.
    """

def make_quick_plan(scenario: Scenario) -> PlanResult:
    """
    A plan that fits, in milliseconds, with nothing proven: see square/planner.h.
    """

def policy_names() -> list[str]: ...
def set_log(
    callback: collections.abc.Callable[[int, str, dict[str, str | int]], None] | None,
    minimum: typing.SupportsInt | typing.SupportsIndex = 20,
) -> None:
    """
    Sends the library's messages to callback(level, message, fields); None drops them.
    """

def simulate_plan(
    scenario: Scenario,
    plan: Plan,
    seed: typing.SupportsInt | typing.SupportsIndex = 1,
    timeout: typing.SupportsFloat | typing.SupportsIndex | datetime.timedelta | None = None,
) -> list[float]:
    """
    Seconds that each collective takes by the plan, in virtual time: see square/plan_simulation.h.
    """

def trim_process_memory() -> bool:
    """
    For programs: gives freed memory back to the kernel. Takes a millisecond for each 50 MiB or so. Returns whether anything was given back.
    """

def tune_process_memory() -> bool:
    """
    For programs: has the allocator keep freed memory for the next transfer. Call it once, early; False where the allocator has no such setting.
    """

def validate(plan: Plan) -> None:
    """
    Raises InvalidArgumentError with the first violations.
    """

__version__: str = "0.1.0"
kProtocolVersion: int = 10
