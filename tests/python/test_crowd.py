"""As many processes at one gateway as it serves: they come, call and go on together."""

import subprocess
import sys

import pytest

SECONDS = 240
KILLED = 2

# Forked from one process that has imported square and used nothing of it: 256 fresh ones take minutes.
PROGRAM = """
import os, sys, time
import numpy
import square

size, killed = int(sys.argv[1]), int(sys.argv[2])
PATIENCE = 120.0


def add_up(group):
    data = numpy.full(1000, group.rank + 1, dtype=numpy.int32)
    group.all_reduce(data, timeout=PATIENCE)
    assert (data == group.size * (group.size + 1) // 2).all(), data[:4]


def be_rank(rank, paths, report):
    # One is elsewhere, so that what they call is planned, and sent.
    nodes = ["a"] * (size - 1) + ["b"]
    node = square.attach(paths[nodes[rank]], timeout=PATIENCE)
    group = square.Communicator(node, "crowd", "alice", nodes, rank, timeout=PATIENCE)
    add_up(group)
    os.write(report, b"1")
    if rank < killed:
        time.sleep(SECONDS)
    group = group.shrink(timeout=PATIENCE)
    assert group.size == size - killed, group.size
    add_up(group)
    os.write(report, b"2")
    group.close(timeout=PATIENCE)


SECONDS = 240
path_in, path_out = os.pipe()
server = os.fork()
if server == 0:
    controller = square.Controller()
    nodes = [square.Node(name, controller=controller.address) for name in "ab"]
    os.write(path_out, " ".join(node.serve_gateway() for node in nodes).encode() + b"\\n")
    time.sleep(SECONDS)
path = b""
while not path.endswith(b"\\n"):
    path += os.read(path_in, 4096)
paths = dict(zip("ab", path.decode().split(), strict=True))
reports, report = os.pipe()
ranks = []
for rank in range(size):
    child = os.fork()
    if child == 0:
        try:
            be_rank(rank, paths, report)
        except BaseException as error:
            print(f"rank {rank}: {error!r}", file=sys.stderr, flush=True)
            os.write(report, b"x")
            os._exit(1)
        os._exit(0)
    ranks.append(child)


def wait_for(count):
    read = b""
    while len(read) < count:
        read += os.read(reports, 4096)
        assert b"x" not in read, "a rank failed"


try:
    began = time.monotonic()
    wait_for(size)
    print(f"{size} processes: first collective after {time.monotonic() - began:.1f} s", flush=True)
    began = time.monotonic()
    for rank in ranks[:killed]:
        os.kill(rank, 9)
    wait_for(size - killed)
    print(f"after a shrink: {time.monotonic() - began:.1f} s", flush=True)
finally:
    for child in (*ranks, server):
        os.kill(child, 9)
        os.waitpid(child, 0)
"""


def run(processes: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(processes), str(KILLED)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-4000:]


def test_64_processes_at_one_gateway_call_at_once_and_go_on() -> None:
    run(64)


@pytest.mark.long
def test_256_processes_at_one_gateway_call_at_once_and_go_on() -> None:
    run(256)
