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

name, controller, names, standing = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
successor = square.Controller(standing_by=standing > 0) if standing >= 0 else None
controller = controller or successor.address
node = square.Node(name, controller, successor=successor, standing=max(standing, 0))
group = None

def act(command, *arguments):
    global group
    if command == "make":
        group = square.Communicator(node, "g", "alice", names, names.index(name))
    elif command == "follows":
        return {"controller": node.controller, "is_own": successor is not None and not successor.stands_by}
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

print(json.dumps(controller), flush=True)
for line in sys.stdin:
    try:
        said = act(*json.loads(line))
    except square.SquareError as error:
        said = {"error": type(error).__name__, "text": str(error)}
    print(json.dumps(said), flush=True)
"""


class Member:
    def __init__(self, name: str, controller: str, names: list[str], standing: int = -1) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-c", MEMBER, name, controller, json.dumps(names), str(standing)],
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
        return json.loads(line)

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
            assert member.hear() == controller
        yield members


@contextmanager
def successors_of(names: list[str], group: list[str]) -> Iterator[list[Member]]:
    """Each brings a controller, and the first of them has the one that all follow."""
    with ExitStack() as stack:
        members = [Member(names[0], "", group, 0)]
        stack.callback(members[0].end)
        controller = members[0].hear()
        members += [Member(name, controller, group, rank) for rank, name in enumerate(names) if rank > 0]
        for member in members[1:]:
            stack.callback(member.end)
            assert member.hear() == controller
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


def lose(dead: Member, others: list[Member], next_name: str) -> None:
    """One is killed in the middle of a sum; the others hear who, and go on together."""
    for member in others:
        member.tell("reduce", SECONDS)
    time.sleep(0.1)
    dead.signal(signal.SIGKILL)
    killed = time.monotonic()
    for said in [member.hear() for member in others]:
        assert said["error"] == "UnavailableError", said
        assert f'"{dead.name}"' in said["text"]
    heard = time.monotonic()
    check_group(on_all(others, "shrink", SECONDS), next_name)
    print(f"heard after {heard - killed:.2f} s, went on after {time.monotonic() - heard:.2f} s")
    assert heard - killed < 5  # 1 s, and a busy machine


def test_survivors_hear_the_name_and_go_on_twice(members: list[Member]) -> None:
    a, b, c, d = members
    for others in ([b, c, d], [b, d]):
        dead = a if len(others) == 3 else c
        lose(dead, others, "g~1" if dead is a else "g~2")


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


def test_the_controller_dies_with_rank_0_and_then_the_next() -> None:
    with successors_of(NAMES, NAMES) as (a, b, c, d):
        check_group(on_all([a, b, c, d], "make"), "g")
        for dead, others in ((a, [b, c, d]), (b, [c, d])):
            lose(dead, others, "g~1" if dead is a else "g~2")
            follows = on_all(others, "follows")
            assert len({one["controller"] for one in follows}) == 1
            assert [one["is_own"] for one in follows] == [True] + [False] * (len(others) - 1)


def test_who_has_the_controller_dies_and_no_operation_notices() -> None:
    with successors_of(NAMES, NAMES[1:]) as (a, b, c, d):
        check_group(on_all([b, c, d], "make"), "g")
        a.signal(signal.SIGKILL)
        for _ in range(20):
            check_group(on_all([b, c, d], "reduce", SECONDS), "g")
        # What is new waits for the next controller, which knows the group.
        check_group(on_all([b, c, d], "shrink", SECONDS), "g~1")


def test_a_controller_that_is_paused_is_not_followed_by_another() -> None:
    with successors_of(NAMES[:3], NAMES[:3]) as (a, b, c):
        check_group(on_all([a, b, c], "make"), "g")
        a.signal(signal.SIGSTOP)
        time.sleep(3)
        for said in on_all([b, c], "shrink", 1.0):
            assert said["error"] in ("DeadlineExceededError", "UnavailableError"), said
        a.signal(signal.SIGCONT)
        check_group(on_all([a, b, c], "shrink", SECONDS), "g~1")
        assert [one["is_own"] for one in on_all([a, b, c], "follows")] == [True, False, False]
