"""The process group: torch.distributed's calls in square's words.

torch has two generations of names for some calls; the older ones are aliases at the end of the class.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import torch
from torch import distributed

import square.torch.leaving  # registers what happens at exit
from square.torch import coalescing, monitored_barrier, sparse
from square.torch.arguments import limit, only, operation, parts, root
from square.torch.calls import Calls
from square.torch.compression import Compressor
from square.torch.operations import Operations
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
        self._operations = Operations(calls, rank, size)
        self._store = store
        self._name = calls.who.name
        self._description = "undefined"

    def __del__(self) -> None:
        # Older torch, 2.6 too, only drops a group that it destroys.
        if (calls := getattr(self, "_calls", None)) is not None:
            calls.shutdown()

    @property
    def calls(self) -> Calls:
        """The engine."""
        return self._calls

    # What a group says of itself.

    def getBackendName(self) -> str:  # noqa: N802
        return NAME

    def getRank(self) -> int:  # noqa: N802
        return self._operations.rank

    def getSize(self) -> int:  # noqa: N802
        return self._operations.size

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

    def flight_record(self) -> dict[str, object]:
        """What this rank has called last: see square.Communicator.flight_record()."""
        return self._calls.communicator.flight_record()

    def compression_report(self) -> square.CompressionReport:
        """What compression did to what this rank gave to all_reduce, in calls that were waited for."""
        return self._calls.compressor.report()

    def compressed_allreduce(self, tensor: Any, compressor: Compressor, timeout: Any = None) -> Work:
        """As allreduce() of a sum, with this compression instead of the group's: see Compressor.

        All ranks must ask for the same. What `compressor` does not apply to goes as it is.
        """
        return self._operations.all_reduce(
            tensor, distributed.ReduceOp.SUM, limit(None, timeout), compressor=compressor
        )

    # One tensor each.

    def broadcast(self, data: Any, options: Any = None, timeout: Any = None, **named: Any) -> Work:
        return self._operations.broadcast(only(data), root(options, named), limit(options, timeout))

    def allreduce(self, data: Any, options: Any = None, timeout: Any = None, **named: Any) -> Work:
        tensor, what = only(data), operation(options, named)
        if tensor.is_sparse:
            return sparse.all_reduce(self._operations, tensor, what, limit(options, timeout))
        return self._operations.all_reduce(
            tensor, what, limit(options, timeout), compressor=self._calls.compressor
        )

    def reduce(
        self, data: Any, options: Any = None, op: Any = None, timeout: Any = None, **named: Any
    ) -> Work:
        what = operation(options, {"op": op})
        return self._operations.reduce(only(data), what, root(options, named), limit(options, timeout))

    # One tensor from or for every rank.

    def allgather(self, outputs: Any, data: Any, options: Any = None, timeout: Any = None) -> Work:
        return self._operations.all_gather(parts(outputs), only(data), limit(options, timeout))

    def all_gather_single(self, output: Any, data: Any, options: Any = None, timeout: Any = None) -> Work:
        return self._operations.all_gather_single(output, data, limit(options, timeout))

    def gather(self, outputs: Any, data: Any, options: Any = None, timeout: Any = None, **named: Any) -> Work:
        of_all = parts(outputs) if root(options, named) == self._operations.rank else None
        return self._operations.gather(of_all, only(data), root(options, named), limit(options, timeout))

    def scatter(
        self, output: Any, inputs: Any, options: Any = None, timeout: Any = None, **named: Any
    ) -> Work:
        of_all = parts(inputs) if root(options, named) == self._operations.rank else None
        return self._operations.scatter(only(output), of_all, root(options, named), limit(options, timeout))

    def reduce_scatter(
        self, output: Any, inputs: Any, options: Any = None, timeout: Any = None, **named: Any
    ) -> Work:
        what = operation(options, named)
        return self._operations.reduce_scatter(only(output), parts(inputs), what, limit(options, timeout))

    def reduce_scatter_single(
        self, output: Any, data: Any, options: Any = None, timeout: Any = None, **named: Any
    ) -> Work:
        what = operation(options, named)
        return self._operations.reduce_scatter_single(output, data, what, limit(options, timeout))

    def alltoall(self, outputs: Any, inputs: Any, options: Any = None, timeout: Any = None) -> Work:
        return self._operations.all_to_all(list(outputs), list(inputs), limit(options, timeout))

    def all_to_all_single(
        self,
        output: Any,
        data: Any,
        output_splits: Sequence[int] = (),
        input_splits: Sequence[int] = (),
        options: Any = None,
        timeout: Any = None,
    ) -> Work:
        return self._operations.all_to_all_single(
            output, data, output_splits, input_splits, limit(options, timeout)
        )

    # Messages.

    def send(self, data: Any, to_rank: int, tag: int = 0) -> Work:
        return self._operations.send(only(data), to_rank, tag)

    def recv(self, data: Any, from_rank: int | None, tag: int = 0) -> Work:
        return self._operations.receive(only(data), from_rank, tag)

    def recv_anysource(self, data: Any, tag: int = 0) -> Work:
        return self.recv(data, None, tag)

    # Nothing but the meeting.

    def barrier(self, options: Any = None, timeout: Any = None, **named: Any) -> Work:
        return self._operations.barrier(limit(named.get("opts", options), timeout))

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Rank 0 names who did not come; see monitored_barrier.meet()."""
        calls = self._calls
        seconds = (calls.timeout if timeout is None else timeout).total_seconds()
        try:
            check = partial(calls.refuse_if_closed, "monitored_barrier")
            monitored_barrier.meet(calls.meeting, calls.next_barrier(), seconds, wait_all_ranks, check)
        except RuntimeError as error:
            raise calls.error("monitored_barrier", error, is_absence=True) from error

    # Many at once.

    def allreduce_coalesced(self, data: Any, options: Any = None, timeout: Any = None, **named: Any) -> Work:
        what = operation(options, named)
        return coalescing.all_reduce(self._operations, list(data), what, limit(options, timeout))

    def allgather_coalesced(self, outputs: Any, data: Any, options: Any = None, timeout: Any = None) -> Work:
        lists = [list(part) for part in outputs]
        return coalescing.all_gather(self._operations, lists, list(data), limit(options, timeout))

    def all_gather_single_coalesced(self, outputs: Any, data: Any, options: Any = None) -> Work:
        pairs = zip(outputs, data, strict=True)
        works = [self.all_gather_single(output, part, options) for output, part in pairs]
        return self._operations.joined("all_gather", works, list(outputs))

    def reduce_scatter_single_coalesced(self, outputs: Any, data: Any, options: Any = None) -> Work:
        pairs = zip(outputs, data, strict=True)
        works = [self.reduce_scatter_single(output, part, options) for output, part in pairs]
        return self._operations.joined("reduce_scatter", works, list(outputs))

    def _start_coalescing(self, device: Any) -> None:
        self._operations.begin_together()

    def _end_coalescing(self, device: Any) -> Work:
        return self._operations.end_together()

    # The older names.

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single


def create(backend_options: Any, options: Any) -> ProcessGroup:
    """What torch.distributed calls for each new group with the backend "square".

    All ranks of the group meet here. Raises ValueError and TypeError for options, RuntimeError for what
    another rank met with, errors of square where the overlay cannot be joined.
    """
    store, rank, size = backend_options.store, backend_options.group_rank, backend_options.group_size
    name = backend_options.group_id
    members = list(backend_options.global_ranks_in_group)  # none for the default group
    calls = Calls(store, rank, size, backend_options.timeout, name, options, members)
    group = ProcessGroup(store, rank, size, calls)
    # ShardedTensor gathers on the first kind listed here beside the CPU, even where there is no such device.
    distributed.Backend.backend_capability[NAME] = [device.type for device in group._device_types]
    return group
