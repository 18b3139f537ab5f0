"""A rank of torch.distributed that times one operation: see ranks.py.

python -m square.bench.torch_rank BACKEND OPERATION ELEMENTS ROUNDS FOLDER
"""

import json
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

TIMEOUT = timedelta(seconds=280)
# Elements are whole numbers below it, so that sums are exact in any order.
LARGEST = 1024


def _broadcast(values: Any, rank: int, size: int) -> Any:
    from torch import distributed as dist

    sent = values.clone() if rank == 0 else values.zero_().clone()
    dist.broadcast(sent, 0)
    return sent


def _all_reduce(values: Any, rank: int, size: int) -> Any:
    from torch import distributed as dist

    values += rank
    dist.all_reduce(values)
    return values


def _parameter_server(values: Any, rank: int, size: int) -> Any:
    """A round of Di-PS: every rank serves a part of the model, gets its gradients, gives back the result."""
    from torch import distributed as dist

    values += rank
    parts = values.chunk(size)
    for each in (dist.reduce, dist.broadcast):
        for work in [each(part, server, async_op=True) for server, part in enumerate(parts)]:
            work.wait()
    return values


_OPERATIONS = {
    "broadcast": _broadcast,
    "all_reduce": _all_reduce,
    "parameter_server": _parameter_server,
}


def _times(operation: Callable[[Any, int, int], Any], elements: int, rounds: int) -> tuple[list[float], bool]:
    import torch
    from torch import distributed as dist

    rank, size = dist.get_rank(), dist.get_world_size()
    base = (torch.arange(elements) % LARGEST).float()
    right = base if operation is _broadcast else base * size + size * (size - 1) // 2
    operation(base[:size].clone(), rank, size)  # registers its sessions, opens connections
    seconds = []
    is_right = True
    for _ in range(rounds):
        values = base.clone()
        dist.barrier()
        begun = time.perf_counter()
        result = operation(values, rank, size)
        seconds.append(time.perf_counter() - begun)
        dist.barrier()  # who is through first does not take the processor from the others
        is_right = is_right and bool(torch.equal(result, right))
    return seconds, is_right


def _diloco(elements: int, rounds: int) -> tuple[list[float], bool]:
    """Outer rounds of a model of so many parameters; the inner step is next to nothing."""
    import torch
    from torch import distributed as dist
    from torch import nn

    from square.diloco import DiLoCo

    model = nn.Module()
    model.weights = nn.Parameter(torch.zeros(elements))
    inner = torch.optim.SGD(model.parameters(), lr=1.0)
    seconds = []
    with DiLoCo(model, inner, sync_every=1 << 30) as diloco:
        for _ in range(rounds + 1):
            model.weights.grad = torch.full((elements,), float(dist.get_rank() + 1))
            inner.step()
            dist.barrier()
            begun = time.perf_counter()
            diloco.sync()
            seconds.append(time.perf_counter() - begun)
    least, most = model.weights.detach().clone(), model.weights.detach().clone()
    dist.all_reduce(least, dist.ReduceOp.MIN)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return seconds[1:], bool(torch.equal(least, most)) and bool(least.abs().max() > 0)


def main() -> None:
    backend, operation, elements, rounds, folder = sys.argv[1:]
    import torch
    from torch import distributed as dist

    import square.torch  # noqa: F401  (the backend)

    torch.set_num_threads(1)
    dist.init_process_group(backend, timeout=TIMEOUT)
    if operation == "diloco":
        seconds, is_right = _diloco(int(elements), int(rounds))
    else:
        seconds, is_right = _times(_OPERATIONS[operation], int(elements), int(rounds))
    answer = json.dumps({"seconds": seconds, "is_right": is_right})
    (Path(folder) / str(dist.get_rank())).write_text(answer, encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
