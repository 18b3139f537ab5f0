"""What operations take as memory besides buffers: tensors that speak DLPack; and how groups are closed."""

import ctypes
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import square
from groups import TIMEOUT_SECONDS, outcomes_of
from square.errors import FailedPreconditionError, InvalidArgumentError
from square.planning import with_policy

PLACES = ["a", "b", "a"]


@pytest.fixture(scope="module")
def nodes() -> Iterator[dict[str, square.Node]]:
    overlay = with_policy(square.Scenario(square.Topology(), name="two"), policy="exact")
    with (
        square.Controller(overlay) as controller,
        square.Node("a", controller.address) as a,
        square.Node("b", controller.address) as b,
    ):
        yield {"a": a, "b": b}


class Tensor:
    """Hands an array out by DLPack, and by nothing else."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.array = array
        self.device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)


class OldTensor(Tensor):
    """As before DLPack had versions."""

    def __dlpack__(self) -> Any:  # type: ignore[override]
        return self.array.__dlpack__()


@pytest.mark.parametrize("kind", [Tensor, OldTensor])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "float32", "float64", "bool"])
def test_tensors_of_every_type(nodes: dict[str, square.Node], kind: type[Tensor], dtype: str) -> None:
    def act(group: square.Communicator, rank: int) -> None:
        own = np.full((7, 3), rank + 1).astype(dtype)
        total = np.zeros_like(own)
        group.all_reduce(kind(own), kind(total), timeout=TIMEOUT_SECONDS)
        wanted = np.ones_like(own) if dtype == "bool" else np.full_like(own, 6)
        assert np.array_equal(total, wanted)
        group.all_reduce(kind(own), timeout=TIMEOUT_SECONDS)  # in place
        assert np.array_equal(own, wanted)
        parts = [kind(np.zeros_like(own)) for _ in PLACES]
        group.all_gather(kind(np.full_like(own, rank)), parts, timeout=TIMEOUT_SECONDS)
        assert all(np.array_equal(part.array, np.full_like(own, r)) for r, part in enumerate(parts))

    outcomes_of(nodes, PLACES, act)


def test_an_array_and_a_tensor_go_together(nodes: dict[str, square.Node]) -> None:
    def act(group: square.Communicator, rank: int) -> None:
        own = np.arange(1000, dtype="float32")
        mine: Any = own if rank == 0 else Tensor(own)
        group.broadcast(mine, root=1, timeout=TIMEOUT_SECONDS)
        total = np.empty_like(own)
        group.all_reduce(mine, total, timeout=TIMEOUT_SECONDS)
        assert np.array_equal(total, 3 * own)

    outcomes_of(nodes, PLACES, act)


def read_only() -> Any:
    array = np.zeros(4, dtype="float32")
    array.flags.writeable = False
    return array


REFUSED = {
    "a device": (Tensor(np.zeros(4, dtype="float32"), (2, 1)), "device 2:1, not on the CPU"),
    "gaps": (Tensor(np.zeros((4, 4), dtype="float32")[:, ::2]), "contiguous"),
    "columns first": (Tensor(np.zeros((4, 4), dtype="float32").T), "contiguous"),
    "read-only": (Tensor(read_only()), "writable"),
    "complex sums": (Tensor(np.zeros(4, dtype="complex64")), "complex64"),
    "no memory": (object(), "incompatible"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(nodes: dict[str, square.Node], case: str) -> None:
    data, message = REFUSED[case]

    def act(group: square.Communicator, rank: int) -> None:
        with pytest.raises((InvalidArgumentError, TypeError), match=message):
            group.all_reduce(data)
        # The group goes on.
        group.barrier(timeout=TIMEOUT_SECONDS)

    outcomes_of(nodes, PLACES, act)


def test_what_is_no_sum_may_be_of_any_type_and_order_of_one(nodes: dict[str, square.Node]) -> None:
    def act(group: square.Communicator, rank: int) -> None:
        data = np.full((1, 5), rank + 1j, dtype="complex64")
        group.broadcast(Tensor(data.T), root=2, timeout=TIMEOUT_SECONDS)
        assert np.array_equal(data, np.full((1, 5), 2 + 1j))
        group.broadcast(Tensor(np.zeros((0, 3))), timeout=TIMEOUT_SECONDS)

    outcomes_of(nodes, PLACES, act)


def test_memory_is_held_as_long_as_it_is_used(nodes: dict[str, square.Node]) -> None:
    def act(group: square.Communicator, rank: int) -> None:
        if rank != 0:
            group.receive(np.zeros(10), 0) if rank == 1 else None
            return group.barrier(timeout=TIMEOUT_SECONDS)
        array = np.full(10, 5.0)
        gone = weakref.ref(array)
        work = group.send_async(Tensor(array), 1, timeout=TIMEOUT_SECONDS)
        del array
        assert gone() is not None
        work.wait()
        del work
        gc.collect()
        assert gone() is None
        return group.barrier(timeout=TIMEOUT_SECONDS)

    outcomes_of(nodes, PLACES, act)


def test_an_export_is_taken_once_and_given_back(nodes: dict[str, square.Node]) -> None:
    """A capsule that is not taken deletes its tensor itself, and then both would."""

    class Watched(Tensor):
        def __dlpack__(self, **options: Any) -> Any:
            self.capsule = super().__dlpack__(**options)
            return self.capsule

    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]

    def act(group: square.Communicator, rank: int) -> None:
        tensor = Watched(np.ones(3))
        group.all_reduce(tensor, timeout=TIMEOUT_SECONDS)
        assert name(tensor.capsule) == b"used_dltensor_versioned"

    outcomes_of(nodes, PLACES, act)


def test_a_method_waits_unless_it_is_asked_not_to(nodes: dict[str, square.Node]) -> None:
    def act(group: square.Communicator, rank: int) -> None:
        data = np.ones(1000)
        assert group.all_reduce(data, timeout=TIMEOUT_SECONDS) is None
        work = group.all_reduce(data, timeout=TIMEOUT_SECONDS, async_op=True)
        assert isinstance(work, square.Work)
        work.wait()
        assert data[0] == 9

    outcomes_of(nodes, PLACES, act)


def test_a_communicator_closes_at_the_end_of_its_block(nodes: dict[str, square.Node]) -> None:
    def act(group: square.Communicator, rank: int) -> None:
        data = np.ones(100_000)
        with group as same:
            assert same is group
            work = group.all_reduce_async(data, timeout=TIMEOUT_SECONDS)
        with pytest.raises(FailedPreconditionError, match="closed"):
            group.barrier()
        group.close()
        assert (group.rank, group.size) == (rank, 3)
        work.wait()
        assert data[-1] == 3

    outcomes_of(nodes, PLACES, act)
    # The nodes stay.
    outcomes_of(nodes, PLACES, lambda group, rank: group.barrier(timeout=TIMEOUT_SECONDS))


def test_tensors_of_torch(nodes: dict[str, square.Node]) -> None:
    torch = pytest.importorskip("torch")

    def act(group: square.Communicator, rank: int) -> None:
        own = torch.full((1000,), rank + 0.5, dtype=torch.bfloat16)
        total = torch.empty_like(own)
        group.all_reduce(own, total, timeout=TIMEOUT_SECONDS)
        assert torch.equal(total, torch.full((1000,), 4.5, dtype=torch.bfloat16))
        group.all_reduce(own, op="max", timeout=TIMEOUT_SECONDS)
        assert own[7] == 2.5
        with pytest.raises(InvalidArgumentError, match="detach"):
            group.all_reduce(torch.ones(3, requires_grad=True))
        with pytest.raises(InvalidArgumentError, match="contiguous"):
            group.all_reduce(torch.ones(3, 4).t())

    outcomes_of(nodes, PLACES, act)
