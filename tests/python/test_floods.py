"""Who floods a controller with HTTP/2 is cut off, and everybody else is answered meanwhile."""

import os
import time
from pathlib import Path

import pytest
import square
from commands import COMMAND
from floods import FLOODS, Flood
from issued import Issued
from overlay_processes import Running

LONG = os.environ.get("SQUARE_LONG") == "1"
SECONDS = 30.0 if LONG else 3.0
# Before bytes had to be explained: 1,100 MiB within 8 s, with no end.
MOST_GROWTH_MIB = 200
FEW = ["open_lines", "open_questions", "rapid_reset", "huge_header"]
# Of an answer, on a machine that does other things besides.
PATIENCE = 5.0


def memory_mib(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.parametrize("role", ["tenant", "node", None] if LONG else ["tenant"])
@pytest.mark.parametrize("name", list(FLOODS) if LONG else FEW)
def test_a_flood_is_cut_off(name: str, role: str | None, tmp_path: Path) -> None:
    issued = Issued(tmp_path)
    operator = issued("controller", "c")
    flooder = None if role is None else Path(issued(role, "flooder"))
    command = [*COMMAND, "controller", "--bind", "127.0.0.1:0", "--identity", operator]
    running = Running(command, tmp_path / "log")
    try:
        address = running.wait_for_line().strip()
        with square.Node("a", address, identity=issued("node", "a")) as early:
            before = most = memory_mib(running.process.pid)
            flood, answers = Flood(address, name, flooder, SECONDS), []
            while not flood.is_over:
                begin = time.monotonic()
                assert [one.name for one in square.list_nodes(address, identity=operator)] == ["a"]
                answers.append(time.monotonic() - begin)
                most = max(most, memory_mib(running.process.pid))
                time.sleep(0.1)
            flood.join()
            said = f"{flood.connections} connections, {most - before:.0f} MiB, answers {max(answers):.2f} s"
            print(f"{name} by {role}: {said}")
            assert flood.connections > 4, "nobody was cut off"
            assert most - before < MOST_GROWTH_MIB, said
            assert max(answers) < PATIENCE, said
            with square.Node("b", address, identity=issued("node", "b")):
                pass
            assert early.name == "a"
    finally:
        running.kill()
