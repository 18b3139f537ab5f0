"""The process group: torch.distributed's calls in square's words.

torch has two generations of names for some calls; the older ones are aliases at the end of the class.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import distributed
from torch.distributed import ReduceOp

import square.torch.leaving  # registers what happens at exit
from square.torch import coalescing, cuda, monitored_barrier, sparse, tensors
from square.torch.calls import Calls
from square.torch.coalescing import Coalesced
from square.torch.reductions import Reduction
from square.torch.tensors import Staging
from square.torch.work import Work

NAME = "square"


class ProcessGroup(distributed.ProcessGroup):
    """One member of a group, as torch.distributed sees it.

    Every call returns a Work at once. Errors are ValueError or TypeError for tensors that cannot be, and
    torch's DistBackendError for everything that befalls an operation. Thread-safe as far as all ranks
    call in the same order.
    """

    def __init__(self, store: Any, rank: int, size: int, calls: Calls) -> None:
        super().__init__(rank, size)
        self._calls = calls
        self._store = store
        self._rank = rank
        self._size = size
        self._name = calls.who.name
        self._description = "undefined"
        self._coalesced: Coalesced | None = None

    def __del__(self) -> None:
        # Older torch, 2.6 too, only drops a group that it destroys.
        if (calls := getattr(self, "_calls", None)) is not None:
            calls.shutdown()

    # What a group says of itself.

    def getBackendName(self) -> str:  # noqa: N802
        return NAME

    def getRank(self) -> int:  # noqa: N802
        return self._rank

    def getSize(self) -> int:  # noqa: N802
        return self._size

    def getGroupName(self) -> str:  # noqa: N802
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        self._name = self._calls.who.name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        self._description = description

    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)
    rank, size = getRank, getSize
    name = _get_backend_name = getBackendName
    _set_group_name, _set_group_desc = setGroupName, setGroupDesc

    def get_group_store(self) -> Any:
        return self._store

    @property
    def _device_types(self) -> list[Any]:
        kinds = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
        return [torch.device(kind) for kind in kinds]

    def _get_backend(self, device: Any) -> "ProcessGroup":
        return self

    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False
    supports_shrinking = False

    def supports_tensor_alloc(self, device: Any) -> bool:
        return False

    def _set_sequence_number_for_group(self) -> None:
        self._calls.sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._calls.sequence

    def set_timeout(self, timeout: timedelta) -> None:
        """Of later operations that bring none along."""
        self._calls.timeout = timeout

    _set_default_timeout = set_timeout

    def abort(self) -> None:
        """Ends what runs, on every member; later calls say so."""
        self._calls.abort()

    def shutdown(self) -> None:
        """Leaves in order: see Calls.shutdown()."""
        self._calls.shutdown()

    def compression_report(self) -> square.CompressionReport:
        """What compression did to what this rank gave to all_reduce, in calls that were waited for."""
        return self._calls.compressor.report()

    # One tensor each.

    def broadcast(self, data: Any, options: Any = None, timeout: Any = None, **named: Any) -> Work:
        tensor = _only(data)
        root = _root(options, named)
        limit = _timeout(options, timeout)
        if cuda.is_cut(tensor):
            return coalescing.in_chunks(
                self,
                "broadcast",
                [tensor],
                lambda chunk: self.broadcast(chunk, root=root, timeout=limit),
                [tensor],
            )
        staging = Staging()
        buffer = staging.input(tensor) if root == self._rank else staging.output(tensor)
        return self._start(
            "broadcast",
            lambda to, seconds: [to.broadcast_async(buffer, root, timeout=seconds)],
            limit,
            [tensor],
            staging,
        )

    def allreduce(self, data: Any, options: Any = None, timeout: Any = None, **named: Any) -> Work:
        tensor = _only(data)
        limit = _timeout(options, timeout)
        operation = _operation(options, named)
        if tensor.is_sparse:
            return sparse.all_reduce(self, tensor, operation, limit)
        return self._all_reduce(tensor, operation, limit, [tensor], Staging(), may_compress=True)

    def _all_reduce(
        self,
        tensor: Any,
        operation: Any,
        timeout: Any,
        result: Sequence[Any],
        staging: Staging,
        *,
        may_compress: bool = False,
    ) -> Work:
        if cuda.is_cut(tensor):
            return coalescing.in_chunks(
                self,
                "all_reduce",
                [tensor],
                lambda chunk: self._all_reduce(
                    chunk[0], operation, timeout, chunk, Staging(), may_compress=may_compress
                ),
                result,
            )
        reduction = Reduction(operation, tensor.dtype)
        if may_compress and self._calls.compressor.applies_to(tensor, reduction):
            return self._compressed_all_reduce(tensor, reduction, timeout, result, staging)
        if reduction.scales:
            source = staging.input(reduction.scaled(tensor))
            output = staging.output(tensor)
        else:
            source, output = staging.in_place(tensor), None
        return self._start(
            "all_reduce",
            lambda to, seconds: [
                to.all_reduce_async(
                    source,
                    output,
                    op=reduction.op,
                    dtype=reduction.dtype,
                    algorithm=self._calls.algorithm,
                    timeout=seconds,
                )
            ],
            timeout,
            result,
            staging,
        )

    def _compressed_all_reduce(
        self, tensor: Any, reduction: Reduction, timeout: Any, result: Sequence[Any], staging: Staging
    ) -> Work:
        compressor = self._calls.compressor
        buffer = staging.in_place(tensor)
        begun: list[Any] = []

        def begin(to: Any, seconds: float) -> list[Any]:
            begun[:] = [compressor.begin(to, tensor, buffer, reduction, seconds)]
            return begun

        def finish() -> None:
            compressor.add(begun[0])
            staging.finish()

        return self._start("all_reduce", begin, timeout, result, staging, finish=finish)

    def reduce(
        self, data: Any, options: Any = None, op: Any = None, timeout: Any = None, **named: Any
    ) -> Work:
        tensor = _only(data)
        root = _root(options, named)
        reduction = Reduction(_operation(options, {"op": op}), tensor.dtype)
        is_root = root == self._rank
        staging = Staging()
        output = None
        if reduction.scales:
            source = staging.input(reduction.scaled(tensor))
            output = staging.output(tensor) if is_root else None
        else:
            source = staging.in_place(tensor) if is_root else staging.input(tensor)
        return self._start(
            "reduce",
            lambda to, seconds: [
                to.reduce_async(source, output, root, op=reduction.op, dtype=reduction.dtype, timeout=seconds)
            ],
            _timeout(options, timeout),
            [tensor],
            staging,
        )

    # One tensor from or for every rank.

    def allgather(self, outputs: Any, data: Any, options: Any = None, timeout: Any = None) -> Work:
        tensor = _only(data)
        parts = self._one_each(outputs, "output tensors")
        _check_like(parts, tensor)
        return self._all_gather(parts, tensor, _timeout(options, timeout), Staging())

    def _all_gather(self, parts: list[Any], tensor: Any, timeout: Any, staging: Staging) -> Work:
        if cuda.is_cut(tensor):
            return coalescing.in_chunks(
                self,
                "all_gather",
                [*parts, tensor],
                lambda chunk: self._all_gather(chunk[:-1], chunk[-1], timeout, Staging()),
                [parts],
                written=len(parts),
            )
        source, targets = staging.input(tensor), staging.outputs(parts)
        return self._start(
            "all_gather",
            lambda to, seconds: [to.all_gather_async(source, targets, timeout=seconds)],
            timeout,
            [parts],
            staging,
        )

    def all_gather_single(self, output: Any, data: Any, options: Any = None, timeout: Any = None) -> Work:
        self._check_multiple(output, data, "output", "input")
        if cuda.is_cut(data) and output.is_contiguous():
            parts = list(output.detach().view(-1).split(data.numel()))
            return self._all_gather(parts, data, _timeout(options, timeout), Staging())
        staging = Staging()
        source, target = staging.input(data), staging.output(output)
        return self._start(
            "all_gather",
            lambda to, seconds: [to.all_gather_async(source, target, timeout=seconds)],
            _timeout(options, timeout),
            [output],
            staging,
        )

    def gather(self, outputs: Any, data: Any, options: Any = None, timeout: Any = None, **named: Any) -> Work:
        tensor = _only(data)
        root = _root(options, named)
        staging = Staging()
        source = staging.input(tensor)
        parts, targets = [], None
        if root == self._rank:
            parts = self._one_each(outputs, "output tensors")
            _check_like(parts, tensor)
            targets = staging.outputs(parts)
        return self._start(
            "gather",
            lambda to, seconds: [to.gather_async(source, targets, root, timeout=seconds)],
            _timeout(options, timeout),
            [parts],
            staging,
        )

    def scatter(
        self, output: Any, inputs: Any, options: Any = None, timeout: Any = None, **named: Any
    ) -> Work:
        tensor = _only(output)
        root = _root(options, named)
        staging = Staging()
        target = staging.output(tensor)
        sources = None
        if root == self._rank:
            parts = self._one_each(inputs, "input tensors")
            _check_like(parts, tensor)
            sources = staging.inputs(parts)
        return self._start(
            "scatter",
            lambda to, seconds: [to.scatter_async(sources, target, root, timeout=seconds)],
            _timeout(options, timeout),
            [tensor],
            staging,
        )

    def reduce_scatter(
        self, output: Any, inputs: Any, options: Any = None, timeout: Any = None, **named: Any
    ) -> Work:
        tensor = _only(output)
        parts = self._one_each(inputs, "input tensors")
        _check_like(parts, tensor)
        return self._reduce_scatter(tensor, parts, _operation(options, named), _timeout(options, timeout))

    def reduce_scatter_single(
        self, output: Any, data: Any, options: Any = None, timeout: Any = None, **named: Any
    ) -> Work:
        self._check_multiple(data, output, "input", "output")
        return self._reduce_scatter(output, data, _operation(options, named), _timeout(options, timeout))

    def _reduce_scatter(self, output: Any, data: Any, operation: Any, timeout: Any) -> Work:
        """`data` is one tensor or one for every rank."""
        if cuda.is_cut(output):
            parts = data if isinstance(data, list) else list(data.detach().reshape(-1).split(output.numel()))
            return coalescing.in_chunks(
                self,
                "reduce_scatter",
                [output, *parts],
                lambda chunk: self._reduce_scatter(chunk[0], chunk[1:], operation, timeout),
                [output],
            )
        staging = Staging()
        reduction = Reduction(operation, output.dtype)
        target = staging.output(output)
        source = (
            staging.inputs([reduction.scaled(part) for part in data])
            if isinstance(data, list)
            else staging.input(reduction.scaled(data))
        )
        return self._start(
            "reduce_scatter",
            lambda to, seconds: [
                to.reduce_scatter_async(
                    source, target, op=reduction.op, dtype=reduction.dtype, timeout=seconds
                )
            ],
            timeout,
            [output],
            staging,
        )

    def alltoall(self, outputs: Any, inputs: Any, options: Any = None, timeout: Any = None) -> Work:
        into, out_of = list(outputs), list(inputs)
        self._check_count(into, "output tensors")
        self._check_count(out_of, "input tensors")
        staging = Staging()
        sources, targets = staging.inputs(out_of), staging.outputs(into)
        return self._start(
            "all_to_all",
            lambda to, seconds: [to.all_to_all_async(sources, targets, timeout=seconds)],
            _timeout(options, timeout),
            into,
            staging,
        )

    def all_to_all_single(
        self,
        output: Any,
        data: Any,
        output_splits: Sequence[int] = (),
        input_splits: Sequence[int] = (),
        options: Any = None,
        timeout: Any = None,
    ) -> Work:
        staging = Staging()
        source, target = staging.input(data), staging.output(output)
        out_of = self._split_bytes(data, input_splits, "input")
        into = self._split_bytes(output, output_splits, "output")
        return self._start(
            "all_to_all",
            lambda to, seconds: [
                to.all_to_all_async(source, target, input_bytes=out_of, output_bytes=into, timeout=seconds)
            ],
            _timeout(options, timeout),
            [output],
            staging,
        )

    # Messages.

    def send(self, data: Any, to_rank: int, tag: int = 0) -> Work:
        tensor = _only(data)
        staging = Staging()
        source = staging.input(tensor)
        return self._start(
            "send",
            lambda to, seconds: [to.send_async(source, to_rank, tag=tag, timeout=seconds)],
            None,
            [tensor],
            staging,
        )

    def recv(self, data: Any, from_rank: int | None, tag: int = 0) -> Work:
        tensor = _only(data)
        staging = Staging()
        target = staging.output(tensor)
        return self._start(
            "receive",
            lambda to, seconds: [to.receive_async(target, from_rank, tag=tag, timeout=seconds)],
            None,
            [tensor],
            staging,
        )

    def recv_anysource(self, data: Any, tag: int = 0) -> Work:
        return self.recv(data, None, tag)

    # Nothing but the meeting.

    def barrier(self, options: Any = None, timeout: Any = None, **named: Any) -> Work:
        limit = _timeout(named.get("opts", options), timeout)
        return self._start(
            "barrier", lambda to, seconds: [to.barrier_async(timeout=seconds)], limit, [], Staging()
        )

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Rank 0 names who did not come; see monitored_barrier.meet()."""
        seconds = (self._calls.timeout if timeout is None else timeout).total_seconds()
        try:
            monitored_barrier.meet(self._calls.meeting, self._calls.next_barrier(), seconds, wait_all_ranks)
        except RuntimeError as error:
            raise self._calls.error("monitored_barrier", error) from error

    # Many at once.

    def allreduce_coalesced(self, data: Any, options: Any = None, timeout: Any = None, **named: Any) -> Work:
        return coalescing.all_reduce(self, list(data), _operation(options, named), _timeout(options, timeout))

    def allgather_coalesced(self, outputs: Any, data: Any, options: Any = None, timeout: Any = None) -> Work:
        lists = [list(part) for part in outputs]
        self._check_count(lists, "lists of output tensors")
        return coalescing.all_gather(self, lists, list(data), _timeout(options, timeout))

    def all_gather_single_coalesced(self, outputs: Any, data: Any, options: Any = None) -> Work:
        pairs = zip(outputs, data, strict=True)
        works = [self.all_gather_single(output, part, options) for output, part in pairs]
        return coalescing.joined("all_gather", self._calls, works, list(outputs))

    def reduce_scatter_single_coalesced(self, outputs: Any, data: Any, options: Any = None) -> Work:
        pairs = zip(outputs, data, strict=True)
        works = [self.reduce_scatter_single(output, part, options) for output, part in pairs]
        return coalescing.joined("reduce_scatter", self._calls, works, list(outputs))

    def _start_coalescing(self, device: Any) -> None:
        self._coalesced = []

    def _end_coalescing(self, device: Any) -> Work:
        works, self._coalesced = self._coalesced or [], None
        return coalescing.joined("coalesced calls", self._calls, works, [])

    # The older names.

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # What the calls share.

    def _start(
        self, operation: str, begin: Any, timeout: Any, result: Any, staging: Staging, finish: Any = None
    ) -> Work:
        work = self._calls.start(
            operation,
            begin,
            timeout=timeout,
            result=result,
            finish=finish or staging.finish,
            keep=staging.kept,
        )
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _one_each(self, nested: Any, what: str) -> list[Any]:
        """The list for this rank, out of a list of one list or as it is."""
        parts = list(nested[0]) if nested and isinstance(nested[0], list | tuple) else list(nested)
        self._check_count(parts, what)
        return parts

    def _check_count(self, parts: Sequence[Any], what: str) -> None:
        if len(parts) != self._size:
            raise ValueError(f"{len(parts)} {what} given to a group of {self._size} ranks: one for each")

    def _check_multiple(self, large: Any, small: Any, large_name: str, small_name: str) -> None:
        if large.dtype != small.dtype:
            raise TypeError(
                f"the {large_name} is {large.dtype}, the {small_name} {small.dtype}: use one type"
            )
        if large.numel() != small.numel() * self._size:
            raise ValueError(
                f"the {large_name} has {large.numel()} elements, the {small_name} {small.numel()}: make it "
                f"{self._size} times as many, one part for each rank"
            )

    def _split_bytes(self, tensor: Any, splits: Sequence[int], what: str) -> list[int]:
        """How many bytes go to or come from each rank."""
        rows = tensor.shape[0] if tensor.dim() > 0 else tensor.numel()
        row_bytes = tensor.numel() * tensor.element_size() // rows if rows else 0
        if not splits:
            if rows % self._size:
                raise ValueError(f"the {what}'s {rows} rows cannot be split evenly over {self._size} ranks")
            return [rows // self._size * row_bytes] * self._size
        self._check_count(splits, f"{what} split sizes")
        if sum(splits) != rows:
            raise ValueError(f"the {what} split sizes add up to {sum(splits)}, but it has {rows} rows")
        return [rows_of_rank * row_bytes for rows_of_rank in splits]


def create(backend_options: Any, options: Any) -> ProcessGroup:
    """What torch.distributed calls for each new group with the backend "square".

    All ranks of the group meet here. Raises ValueError and TypeError for options, RuntimeError for what
    another rank met with, errors of square where the overlay cannot be joined.
    """
    store, rank, size = backend_options.store, backend_options.group_rank, backend_options.group_size
    name = backend_options.group_id
    calls = Calls(store, rank, size, backend_options.timeout, name, options)
    return ProcessGroup(store, rank, size, calls)


def _only(data: Any) -> Any:
    """The tensor, out of a list of one or as it is."""
    if isinstance(data, list | tuple):
        if len(data) != 1:
            raise ValueError(f"{len(data)} tensors given, but a rank has one of them in this operation")
        data = data[0]
    if not isinstance(data, torch.Tensor):
        raise TypeError(f"expected a tensor, not {type(data).__name__}")
    return data


def _root(options: Any, named: dict[str, Any]) -> int:
    if "root" in named:
        return int(named["root"])
    options = named.get("opts", options)
    if isinstance(options, int):
        return options
    return int(options.rootRank) if options is not None else 0


def _operation(options: Any, named: dict[str, Any]) -> Any:
    if named.get("op") is not None:
        return named["op"]
    options = named.get("opts", options)
    if options is None:
        return ReduceOp.SUM
    return options.reduceOp if hasattr(options, "reduceOp") else options


def _timeout(options: Any, timeout: timedelta | None) -> timedelta | None:
    return timeout if timeout is not None else getattr(options, "timeout", None)


def _check_like(parts: Sequence[Any], tensor: Any) -> None:
    for part in parts:
        tensors.check(part)
        if part.dtype != tensor.dtype:
            raise TypeError(f"tensors of {part.dtype} and {tensor.dtype} in one operation: use one type")
        if part.numel() != tensor.numel():
            raise ValueError(f"tensors of {part.numel()} and {tensor.numel()} elements in one operation")
