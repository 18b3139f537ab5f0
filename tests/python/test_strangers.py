"""Connections that say nothing, more than a process has descriptors."""

import resource
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack

import square

# Of the controller, as is usual; and the connections to it.
DESCRIPTORS = 1024
SILENT = 2000


def test_a_controller_serves_whoever_speaks() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, SILENT + DESCRIPTORS), hard))
    command = f"ulimit -n {DESCRIPTORS}; exec {sys.executable} -P -m square controller"
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        process = subprocess.Popen(
            ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        stack.callback(process.communicate)
        stack.callback(process.kill)
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        host, _, port = address.rpartition(":")
        for _ in range(SILENT):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
        with square.Node("a", address), square.Node("b", address):
            assert [node.name for node in square.list_nodes(address) if node.connected] == ["a", "b"]
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=20)
    assert "there are many that say nothing" in told
    assert "127.0.0.1:" in told
