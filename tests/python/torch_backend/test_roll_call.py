"""Who is gone, by what this host, the controller and the ranks of other hosts know."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import ranks  # noqa: F401 - skips without torch
import square
from commands import wait_until
from square.errors import DeadlineExceededError, InvalidArgumentError, UnavailableError
from square.planning import with_policy
from square.torch import presence
from square.torch.roll_call import Overlay, Place, RollCall

BROKEN = UnavailableError("a link went down")
LATE = DeadlineExceededError("too late")
HOLD_A_MARK = (
    "import time; from square.torch import presence; print(presence.own_mark(), flush=True); time.sleep(60)"
)


def roll_call(*places: Place, overlay: Overlay | None = None, reported: tuple[int, ...] = ()) -> RollCall:
    """As the process of rank 0 sees it."""
    told: list[int] = []
    return RollCall(
        "g", 0, list(places), overlay or Overlay("", "", None), told.append, lambda rank: rank in reported
    )


def here(node: str = "home", mark: str = "", *, is_node: bool = True) -> Place:
    return Place("here", node, mark or presence.own_mark(), is_node)


def there(node: str, *, is_node: bool = True) -> Place:
    """On a host whose marks cannot be seen."""
    return Place(f"host of {node}", node, presence.own_mark(), is_node)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen([sys.executable, "-c", HOLD_A_MARK], stdout=subprocess.PIPE, text=True)
    yield started
    started.kill()
    started.wait()


def test_a_process_of_this_host_is_gone_when_its_mark_is(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    mark = process.stdout.readline().strip()
    group = roll_call(here(), here("home", mark, is_node=False))
    assert group.explain(LATE) == ""
    os.kill(process.pid, signal.SIGSTOP)
    assert group.explain(LATE) == ""  # it may go on
    process.kill()
    assert group.explain(BROKEN) == '; gone: rank 1 on node "home"'
    assert group.explain(InvalidArgumentError("sizes differ")) == ""


def test_a_forked_child_does_not_stand_for_its_parent() -> None:
    code = (
        "import os, sys, time; from square.torch import presence; print(presence.own_mark(), flush=True)\n"
        "if os.fork() == 0: sys.stdin.read()\n"
        "os._exit(0)"
    )
    pipe = subprocess.PIPE
    # The child lives until its input ends.
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) as parent:
        assert parent.stdout is not None
        mark = parent.stdout.readline().strip()
        assert parent.wait() == 0
        assert wait_until(lambda: not presence.is_there(mark), 30)


OWN = square.Identity.make_own()


@pytest.fixture
def controller() -> Iterator[square.Controller]:
    overlay = with_policy(square.Scenario(square.Topology(), name="overlay"), policy="exact")
    with square.Controller(overlay, identity=OWN) as started:
        yield started


def test_the_controller_knows_the_nodes_of_other_hosts(controller: square.Controller) -> None:
    asked = Overlay(controller.address, OWN, None)
    with square.Node("home", controller.address, identity=OWN):
        with square.Node("far", controller.address, identity=OWN):
            group = roll_call(here(), there("far"), there("far", is_node=False), overlay=asked)
            assert group.explain(LATE) == ""
        assert group.explain(BROKEN) == '; gone: rank 1 on node "far"'


def test_whoever_has_the_controller_is_gone_with_it(controller: square.Controller) -> None:
    group = roll_call(here(), there("far"), overlay=Overlay(controller.address, OWN, 1))
    other = roll_call(here(), there("far"), overlay=Overlay(controller.address, OWN, None))
    controller.stop()
    assert group.explain(BROKEN) == '; gone: rank 1 on node "far"'
    # A controller that nobody of the group has says nothing of them by its silence.
    assert other.explain(LATE) == ""


def test_a_controller_that_believes_others_accuses_nobody(controller: square.Controller) -> None:
    group = roll_call(
        here(), there("far"), overlay=Overlay(controller.address, square.Identity.make_own(), None)
    )
    assert group.explain(LATE) == ""


def test_attached_processes_are_reported_by_their_host() -> None:
    attached = there("far", is_node=False)
    assert roll_call(here(), attached).explain(LATE) == ""
    assert roll_call(here(), attached, reported=(1,)).explain(LATE) == '; gone: rank 1 on node "far"'


def test_nobody_waits_long_for_what_cannot_be_known() -> None:
    group = roll_call(here(), here("home", presence.own_mark(), is_node=False))
    begin = time.monotonic()
    assert all(group.explain(BROKEN) == "" for _ in range(200))
    assert time.monotonic() - begin < 20  # 200 s, if each of them waited
