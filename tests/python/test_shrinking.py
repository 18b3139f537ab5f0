"""Members that are killed and paused, each in a process of its own: the others go on without them."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from test_cli_serve import serving

NAMES = ["a", "b", "c", "d"]
SECONDS = 30.0

# One member: does what it is told to, line by line, and says what came of it.
MEMBER = """
import json, sys, time
import numpy as np
import square

name, controller, names = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
node = square.Node(name, controller)
group = None

def act(command, *arguments):
    global group
    if command == "make":
        group = square.Communicator(node, "g", "alice", names, names.index(name))
    elif command == "shrink":
        group = group.shrink(timeout=arguments[0])
    elif command == "grow":
        group = group.grow(arguments[0], timeout=arguments[1])
    elif command == "join":
        group = square.Communicator.join(node, "g", timeout=arguments[0])
    data = np.full(1000, group.rank + 1, "float32")
    begun = time.monotonic()
    group.all_reduce(data, timeout=arguments[0] if command == "reduce" else 30.0)
    return {"group": group.name, "rank": group.rank, "size": group.size, "sum": float(data[0]),
            "seconds": time.monotonic() - begun}

print("ready", flush=True)
for line in sys.stdin:
    try:
        said = act(*json.loads(line))
    except square.SquareError as error:
        said = {"error": type(error).__name__, "text": str(error)}
    print(json.dumps(said), flush=True)
"""


class Member:
    def __init__(self, name: str, controller: str, names: list[str]) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-c", MEMBER, name, controller, json.dumps(names)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, *command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def hear(self, seconds: float = SECONDS) -> Any:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        assert ready, f"member {self.name} said nothing for {seconds} s"
        line = self.process.stdout.readline()
        assert line, f"member {self.name} is gone"
        return line if line == "ready\n" else json.loads(line)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def members_of(names: list[str], controller: str, group: list[str] | None = None) -> Iterator[list[Member]]:
    with ExitStack() as stack:
        members = [Member(name, controller, group or names) for name in names]
        for member in members:
            stack.callback(member.end)
        for member in members:
            assert member.hear() == "ready\n"
        yield members


def on_all(members: list[Member], *command: Any) -> list[Any]:
    for member in members:
        member.tell(*command)
    return [member.hear() for member in members]


def check_group(said: list[Any], group: str) -> None:
    size = len(said)
    assert [one.get("rank") for one in said] == list(range(size)), said
    assert {one["group"] for one in said} == {group}
    assert {one["size"] for one in said} == {size}
    assert {one["sum"] for one in said} == {size * (size + 1) / 2}


@pytest.fixture
def members() -> Iterator[list[Member]]:
    with serving("controller", "--bind", "127.0.0.1:0") as (_, address), members_of(NAMES, address) as four:
        check_group(on_all(four, "make"), "g")
        yield four


def test_survivors_hear_the_name_and_go_on_twice(members: list[Member]) -> None:
    a, b, c, d = members
    for others in ([b, c, d], [b, d]):
        dead = a if len(others) == 3 else c
        for member in others:
            member.tell("reduce", SECONDS)
        time.sleep(0.1)
        dead.signal(signal.SIGKILL)
        killed = time.monotonic()
        for said in [member.hear() for member in others]:
            assert said["error"] == "UnavailableError", said
            assert f'"{dead.name}"' in said["text"]
        heard = time.monotonic()
        said = on_all(others, "shrink", SECONDS)
        check_group(said, "g~1" if dead is a else "g~2")
        print(f"heard after {heard - killed:.2f} s, went on after {time.monotonic() - heard:.2f} s")
        assert heard - killed < 5  # 1 s, and a busy machine


def test_a_paused_member_is_waited_for(members: list[Member]) -> None:
    a, b, c, d = members
    c.signal(signal.SIGSTOP)
    for said in on_all([a, b, d], "shrink", 1.5):
        assert said["error"] == "DeadlineExceededError"
        assert 'node "c" (rank 2)' in said["text"]
    for member in (a, b, d):
        member.tell("shrink", SECONDS)
    time.sleep(0.3)
    c.signal(signal.SIGCONT)
    c.tell("shrink", SECONDS)
    check_group([member.hear() for member in members], "g~1")


def test_others_join_behind_the_survivors() -> None:
    with (
        serving("controller", "--bind", "127.0.0.1:0") as (_, address),
        members_of(NAMES, address, NAMES[:2]) as (a, b, c, d),
    ):
        check_group(on_all([a, b], "make"), "g")
        for joiner in (d, c):
            joiner.tell("join", SECONDS)
        for member in (a, b):
            member.tell("grow", 2, SECONDS)
        check_group([member.hear() for member in (a, b, c, d)], "g~1")
        a.signal(signal.SIGKILL)
        check_group(on_all([b, c, d], "shrink", SECONDS), "g~2")
