"""The commands of docs/operations.md, typed on two machines that are namespaces."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import square
from conftest import REPOSITORY
from square.run import namespaces
from square.run.sites import Sites

MOST_COMMANDS = 12
# A broadcast from one machine to the other, by a tenant's process there.
PROGRAM = """
import sys
import square
path, tenant, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
with square.attach(path, tenant=tenant, timeout=20) as node:
    group = square.Communicator(node, "run of " + tenant, tenant, ["fra", "oslo"], rank, timeout=30)
    data = bytearray(tenant.encode() * 1000 if rank == 0 else bytes(1000 * len(tenant)))
    group.broadcast(data, 0, timeout=30)
    print(data == tenant.encode() * 1000, flush=True)
"""


def commands() -> list[tuple[str, str]]:
    """The machine and what is typed there."""
    text = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
    block = re.search(r"```console\n(.*?)```", text, re.DOTALL)
    assert block is not None
    return [(line[0], line[3:]) for line in block[1].splitlines()]


@pytest.fixture
def sites() -> Sites:
    try:
        namespaces.check_possible()
        namespaces.Namespace().close()
    except square.SquareError as error:
        pytest.skip(str(error))
    topology = square.Topology()
    for name in ("a", "b"):
        topology.add_node(name)
    for tail, head in (("a", "b"), ("b", "a")):
        topology.add_link(tail, head, capacity_bps=1e8)
    return Sites(topology)


def test_two_machines_and_two_tenants(sites: Sites, tmp_path: Path) -> None:
    typed = commands()
    assert len(typed) <= MOST_COMMANDS
    running: list[subprocess.Popen[str]] = []
    with sites:
        known = {"A": sites.address_of("a"), "B": sites.address_of("b"), "SQUARE_IDENTITY": ""}
        known["PATH"] = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin"
        try:
            for machine, line in typed:
                if "ssh" in line:
                    continue  # both see the same files here
                serves = line.endswith("&")
                process = sites.start(
                    machine,
                    ["bash", "-c", "exec " + line.rstrip("& ")],
                    known,
                    cwd=tmp_path,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
                assert process.stdout is not None
                assert process.stdout.readline(), line
                if serves:
                    running.append(process)
                else:
                    assert process.wait(30) == 0, line
            members = [
                sites.start(
                    machine,
                    [sys.executable, "-P", "-c", PROGRAM, f"{node}.sock", tenant, str(rank)],
                    known,
                    cwd=tmp_path,
                    stdout=subprocess.PIPE,
                )
                for tenant in ("alice", "bob")
                for rank, (machine, node) in enumerate((("a", "fra"), ("b", "oslo")))
            ]
            assert [member.communicate(timeout=60)[0] for member in members] == ["True\n"] * 4
        finally:
            for process in running:
                process.kill()
                process.communicate()
