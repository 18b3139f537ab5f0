"""Who floods a controller with HTTP/2 is cut off, and everybody else is answered meanwhile."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import square
from commands import COMMAND
from floods import ALONE, FLOODS, Flood
from issued import Issued
from overlay_processes import Running

LONG = os.environ.get("SQUARE_LONG") == "1"
SECONDS = 30.0 if LONG else 3.0
# Before bytes had to be explained: 1,100 MiB within 8 s; before the kernel held the bound: 265 MiB in 30 s.
MOST_GROWTH_MIB = 128
# What one carries before it is cut off or held back; a node's may bring the largest message besides.
MOST_OF_CONNECTION = 512 << 10
MOST_OF_LINE = 40 << 20
FEW = ["open_lines", "open_questions", "rapid_reset", "huge_header", "half_handshakes"]
# Of an answer, on a machine that does other things besides.
PATIENCE = 1.0 if LONG else 5.0


def memory_mib(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.fixture
def prefix_of_controller() -> Iterator[list[str]]:
    """Of its command: in the long runs it has a core of its own, apart from the flood and its callers."""
    cores = sorted(os.sched_getaffinity(0))
    if not LONG or len(cores) < 2:
        yield []
        return
    os.sched_setaffinity(0, {cores[1]})
    yield ["taskset", "--cpu-list", str(cores[0])]
    os.sched_setaffinity(0, cores)


def cases() -> list[tuple[str, str | None]]:
    """Floods, and by what certificate."""
    if not LONG:
        return [(name, None if name in ALONE else "tenant") for name in FEW]
    return [
        (name, role) for name in FLOODS for role in ("tenant", "node", None) if not (role and name in ALONE)
    ]


@pytest.mark.parametrize(("name", "role"), cases())
def test_a_flood_is_cut_off(
    name: str, role: str | None, tmp_path: Path, prefix_of_controller: list[str]
) -> None:
    issued = Issued(tmp_path)
    operator, joiner = issued("controller", "c"), issued("node", "b")
    flooder = None if role is None else Path(issued(role, "flooder"))
    command = [*prefix_of_controller, *COMMAND, "controller", "--bind", "127.0.0.1:0", "--identity", operator]
    running = Running(command, tmp_path / "log")
    try:
        address = running.wait_for_line().strip()
        with square.Node("a", address, identity=issued("node", "a")) as early:
            before = most = memory_mib(running.process.pid)
            flood, answers, joins = Flood(address, name, flooder, SECONDS), [], []
            while not flood.is_over:
                begin = time.monotonic()
                assert "a" in [one.name for one in square.list_nodes(address, identity=operator)]
                answers.append(time.monotonic() - begin)
                begin = time.monotonic()
                with square.Node("b", address, identity=joiner):
                    joins.append(time.monotonic() - begin)
                most = max(most, memory_mib(running.process.pid))
                time.sleep(0.1)
            flood.join()
            said = (
                f"{flood.connections} connections, {flood.sent_bytes >> 10} KiB sent, "
                f"{most - before:.0f} MiB, answers {max(answers):.2f} s, joins {max(joins):.2f} s"
            )
            print(f"{name} by {role}: {said}")
            most_sent = MOST_OF_LINE if role == "node" else MOST_OF_CONNECTION
            assert flood.sent_bytes < most_sent * flood.connections, said
            assert most - before < MOST_GROWTH_MIB, said
            assert max(answers + joins) < PATIENCE, said
            assert early.name == "a"
    finally:
        running.kill()
