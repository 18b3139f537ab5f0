"""torch, square and grpcio in one process: each brings native code, and the last two a gRPC of their own."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("grpc", reason="grpcio is not installed: `make setup` installs it for the tests")

ORDERS = list(itertools.permutations(["torch", "square", "grpc"]))
USE_ALL = """
import threading
from concurrent import futures


def call(times):
    class Echo(grpc.GenericRpcHandler):
        def service(self, details):
            return grpc.unary_unary_rpc_method_handler(lambda data, context: data[::-1])

    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Echo()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        echo = channel.unary_unary("/test.Echo/Echo")
        for time in range(times):
            data = bytes([time]) * 100_000 + b"end"
            assert echo(data, timeout=20) == data[::-1]
    server.stop(None).wait()


def sum_up(nodes):
    def member(rank):
        with square.Communicator(nodes[rank], "group", "alice", ["a", "b"], rank) as group:
            for _ in range(20):
                tensor = torch.full((100_000,), rank + 1.0)
                group.all_reduce(tensor, timeout=20)
                totals[rank] += tensor[-1].item()

    totals = [0.0, 0.0]
    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    call(20)  # at the same time
    for thread in threads:
        thread.join()
    assert totals == [60.0, 60.0], totals


def main():
    call(1)
    torch.distributed.init_process_group("square", store=torch.distributed.HashStore(), rank=0, world_size=1)
    torch.distributed.all_reduce(torch.ones(10))
    overlay = square.Scenario(square.Topology(), name="two")
    overlay = square.planning.with_policy(overlay, policy="exact")
    with square.Controller(overlay) as controller:
        with square.Node("a", controller.address) as a, square.Node("b", controller.address) as b:
            sum_up([a, b])
    torch.distributed.destroy_process_group()
    call(1)


main()
"""


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_all_three_work_side_by_side(order: tuple[str, ...], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    imports = [f"import {name}\n" for name in order]
    script.write_text("".join(imports) + "import square.planning\nimport torch.distributed\n" + USE_ALL)
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
