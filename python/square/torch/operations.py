"""Operations on tensors, as a communicator runs them: staging, chunks of CUDA tensors, compression.

Between process_group.py, which speaks torch's words, and calls.py, which knows no tensors.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from square.torch import arguments, cuda, tensors
from square.torch.calls import Begin, Calls
from square.torch.compression import Compressor
from square.torch.reductions import Reduction
from square.torch.tensors import Staging
from square.torch.work import Work

Timeout = timedelta | None


class Operations:
    """One member's operations on one group. Each returns at once; a timeout of None is the group's.

    Raise ValueError and TypeError for tensors that cannot be, and DistBackendError. Thread-safe as far as
    all ranks call in the same order.
    """

    def __init__(self, calls: Calls, rank: int, size: int) -> None:
        self._calls = calls
        self.rank = rank
        self.size = size
        self._together: list[Work] | None = None

    # Several as one.

    def begin_together(self) -> None:
        """What starts from here on is collected for end_together()."""
        self._together = []

    def end_together(self) -> Work:
        works, self._together = self._together or [], None
        return self.joined("coalesced calls", works, [])

    def joined(
        self, operation: str, works: Sequence[Work], result: Any, finish: Callable[[], None] = lambda: None
    ) -> Work:
        """One work for all of these, with the first failure; `finish` runs after the success of all."""
        work = Work.joined(operation, self._calls.who, works, result, finish)
        self._calls.remember(work)
        return work

    def done(self, operation: str, result: Any) -> Work:
        """A work that is over."""
        return self.joined(operation, [], result)

    def _in_chunks(
        self,
        operation: str,
        whole: Sequence[Any],
        start: Callable[[list[Any]], Work],
        result: Any,
        written: int = 1,
    ) -> Work:
        """Runs it on chunk after chunk of these equally large tensors, the first ones `written`."""
        chunks = cuda.cut(whole)
        works = [start(chunk) for chunk in chunks]

        def finish() -> None:
            for place, tensor in enumerate(whole[:written]):
                cuda.uncut(tensor, [chunk[place] for chunk in chunks])

        return self.joined(operation, works, result, finish)

    # One tensor each.

    def broadcast(self, tensor: Any, root: int, timeout: Timeout) -> Work:
        if cuda.is_cut(tensor):
            return self._in_chunks(
                "broadcast", [tensor], lambda chunk: self.broadcast(chunk[0], root, timeout), [tensor]
            )
        staging = Staging()
        buffer = staging.input(tensor) if root == self.rank else staging.output(tensor)
        dtype = tensors.known_name(tensor.dtype)
        return self._start(
            "broadcast",
            lambda to, seconds: [to.broadcast_async(buffer, root, dtype=dtype, timeout=seconds)],
            timeout,
            [tensor],
            staging,
        )

    def all_reduce(
        self,
        tensor: Any,
        operation: Any,
        timeout: Timeout,
        result: Sequence[Any] | None = None,
        staging: Staging | None = None,
        *,
        compressor: Compressor | None = None,
    ) -> Work:
        """`result` is what the work has, [tensor] if it is None; `staging` is what packed the tensor."""
        result = [tensor] if result is None else result
        if cuda.is_cut(tensor):
            return self._in_chunks(
                "all_reduce",
                [tensor],
                lambda chunk: self.all_reduce(chunk[0], operation, timeout, compressor=compressor),
                result,
            )
        staging = staging or Staging()
        reduction = Reduction(operation, tensor.dtype, self.size)
        if compressor and compressor.applies_to(tensor, reduction):
            return self._compressed_all_reduce(compressor, tensor, reduction, timeout, result, staging)
        if reduction.scales:
            source = staging.input(reduction.scaled(tensor))
            output = staging.output(tensor)
        else:
            source, output = staging.in_place(tensor, reduction.finish), None
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
        self,
        compressor: Compressor,
        tensor: Any,
        reduction: Reduction,
        timeout: Timeout,
        result: Sequence[Any],
        staging: Staging,
    ) -> Work:
        buffer = staging.in_place(tensor)
        begun: list[Any] = []

        def begin(to: Any, seconds: float) -> list[Any]:
            begun[:] = [compressor.begin(to, tensor, buffer, reduction, seconds)]
            return begun

        def finish() -> None:
            compressor.add(begun[0])
            staging.finish()

        return self._start("all_reduce", begin, timeout, result, staging, finish=finish)

    def reduce(self, tensor: Any, operation: Any, root: int, timeout: Timeout) -> Work:
        reduction = Reduction(operation, tensor.dtype, self.size)
        is_root = root == self.rank
        staging = Staging()
        output = None
        if reduction.scales:
            source = staging.input(reduction.scaled(tensor))
            output = staging.output(tensor) if is_root else None
        else:
            source = staging.in_place(tensor, reduction.finish) if is_root else staging.input(tensor)
        return self._start(
            "reduce",
            lambda to, seconds: [
                to.reduce_async(source, output, root, op=reduction.op, dtype=reduction.dtype, timeout=seconds)
            ],
            timeout,
            [tensor],
            staging,
        )

    # One tensor from or for every rank.

    def all_gather(
        self, parts: list[Any], tensor: Any, timeout: Timeout, staging: Staging | None = None
    ) -> Work:
        self._check_parts(parts, tensor, "output tensors")
        if cuda.is_cut(tensor):
            return self._in_chunks(
                "all_gather",
                [*parts, tensor],
                lambda chunk: self.all_gather(chunk[:-1], chunk[-1], timeout),
                [parts],
                written=len(parts),
            )
        staging = staging or Staging()
        source, targets = staging.input(tensor), staging.outputs(parts)
        return self._start_all_gather(source, targets, tensor.dtype, timeout, [parts], staging)

    def all_gather_single(self, output: Any, tensor: Any, timeout: Timeout) -> Work:
        """`output` has a part for every rank."""
        arguments.check_multiple(output, tensor, self.size, "output", "input")
        if cuda.is_cut(tensor) and output.is_contiguous():
            parts = list(output.detach().view(-1).split(tensor.numel()))
            return self.all_gather(parts, tensor, timeout)
        staging = Staging()
        source, target = staging.input(tensor), staging.output(output)
        return self._start_all_gather(source, target, tensor.dtype, timeout, [output], staging)

    def _start_all_gather(
        self, source: Any, targets: Any, dtype: Any, timeout: Timeout, result: Any, staging: Staging
    ) -> Work:
        name = tensors.known_name(dtype)
        return self._start(
            "all_gather",
            lambda to, seconds: [to.all_gather_async(source, targets, dtype=name, timeout=seconds)],
            timeout,
            result,
            staging,
        )

    def gather(self, parts: list[Any] | None, tensor: Any, root: int, timeout: Timeout) -> Work:
        """The root alone has `parts`."""
        staging = Staging()
        source = staging.input(tensor)
        targets = None
        if parts is not None:
            self._check_parts(parts, tensor, "output tensors")
            targets = staging.outputs(parts)
        return self._start(
            "gather",
            lambda to, seconds: [to.gather_async(source, targets, root, timeout=seconds)],
            timeout,
            [parts or []],
            staging,
        )

    def scatter(self, tensor: Any, parts: list[Any] | None, root: int, timeout: Timeout) -> Work:
        """The root alone has `parts`."""
        staging = Staging()
        target = staging.output(tensor)
        sources = None
        if parts is not None:
            self._check_parts(parts, tensor, "input tensors")
            sources = staging.inputs(parts)
        return self._start(
            "scatter",
            lambda to, seconds: [to.scatter_async(sources, target, root, timeout=seconds)],
            timeout,
            [tensor],
            staging,
        )

    def reduce_scatter(self, output: Any, parts: list[Any], operation: Any, timeout: Timeout) -> Work:
        self._check_parts(parts, output, "input tensors")
        if cuda.is_cut(output):
            return self._reduce_scatter_in_chunks(output, parts, operation, timeout)
        staging = Staging()
        reduction = Reduction(operation, output.dtype, self.size)
        target = staging.output(output, reduction.finish)
        source = staging.inputs([reduction.scaled(part) for part in parts])
        return self._start_reduce_scatter(source, target, reduction, timeout, output, staging)

    def reduce_scatter_single(self, output: Any, data: Any, operation: Any, timeout: Timeout) -> Work:
        """`data` has a part for every rank."""
        arguments.check_multiple(data, output, self.size, "input", "output")
        if cuda.is_cut(output):
            parts = list(data.detach().reshape(-1).split(output.numel()))
            return self._reduce_scatter_in_chunks(output, parts, operation, timeout)
        staging = Staging()
        reduction = Reduction(operation, output.dtype, self.size)
        target = staging.output(output, reduction.finish)
        source = staging.input(reduction.scaled(data))
        return self._start_reduce_scatter(source, target, reduction, timeout, output, staging)

    def _reduce_scatter_in_chunks(
        self, output: Any, parts: list[Any], operation: Any, timeout: Timeout
    ) -> Work:
        return self._in_chunks(
            "reduce_scatter",
            [output, *parts],
            lambda chunk: self.reduce_scatter(chunk[0], chunk[1:], operation, timeout),
            [output],
        )

    def _start_reduce_scatter(
        self, source: Any, target: Any, reduction: Reduction, timeout: Timeout, output: Any, staging: Staging
    ) -> Work:
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

    def all_to_all(self, outputs: list[Any], inputs: list[Any], timeout: Timeout) -> Work:
        arguments.check_count(outputs, self.size, "output tensors")
        arguments.check_count(inputs, self.size, "input tensors")
        staging = Staging()
        sources, targets = staging.inputs(inputs), staging.outputs(outputs)
        return self._start(
            "all_to_all",
            lambda to, seconds: [to.all_to_all_async(sources, targets, timeout=seconds)],
            timeout,
            outputs,
            staging,
        )

    def all_to_all_single(
        self, output: Any, data: Any, into: Sequence[int], out_of: Sequence[int], timeout: Timeout
    ) -> Work:
        """`into` and `out_of` are rows by rank; as many for each if there are none."""
        staging = Staging()
        source, target = staging.input(data), staging.output(output)
        input_bytes = arguments.split_bytes(data, out_of, self.size, "input")
        output_bytes = arguments.split_bytes(output, into, self.size, "output")
        return self._start(
            "all_to_all",
            lambda to, seconds: [
                to.all_to_all_async(
                    source, target, input_bytes=input_bytes, output_bytes=output_bytes, timeout=seconds
                )
            ],
            timeout,
            [output],
            staging,
        )

    # Messages, and nothing but the meeting.

    def send(self, tensor: Any, to_rank: int, tag: int) -> Work:
        staging = Staging()
        source = staging.input(tensor)
        return self._start(
            "send",
            lambda to, seconds: [to.send_async(source, to_rank, tag=tag, timeout=seconds)],
            None,
            [tensor],
            staging,
        )

    def receive(self, tensor: Any, from_rank: int | None, tag: int) -> Work:
        """From any rank if `from_rank` is None."""
        staging = Staging()
        target = staging.output(tensor)
        return self._start(
            "receive",
            lambda to, seconds: [to.receive_async(target, from_rank, tag=tag, timeout=seconds)],
            None,
            [tensor],
            staging,
        )

    def barrier(self, timeout: Timeout) -> Work:
        return self._start(
            "barrier", lambda to, seconds: [to.barrier_async(timeout=seconds)], timeout, [], Staging()
        )

    def _start(
        self,
        operation: str,
        begin: Begin,
        timeout: Timeout,
        result: Any,
        staging: Staging,
        finish: Callable[[], None] | None = None,
    ) -> Work:
        work = self._calls.start(
            operation,
            begin,
            timeout=timeout,
            result=result,
            finish=finish or staging.finish,
            keep=staging.kept,
        )
        if self._together is not None:
            self._together.append(work)
        return work

    def _check_parts(self, parts: Sequence[Any], tensor: Any, what: str) -> None:
        """One for each rank, all like `tensor`."""
        arguments.check_count(parts, self.size, what)
        for part in parts:
            tensors.check(part)
            if part.dtype != tensor.dtype:
                raise TypeError(f"tensors of {part.dtype} and {tensor.dtype} in one operation: use one type")
            if part.numel() != tensor.numel():
                raise ValueError(f"tensors of {part.numel()} and {tensor.numel()} elements in one operation")
