"""Several controllers of one store under traffic: where the one that leads ends, another does."""

import os
import random
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import square
from commands import wait_until
from database import postgres
from groups import TIMEOUT_SECONDS
from square.errors import SquareError
from test_cli_serve import serving
from test_controller_restart import NAMES, Job

ENDS = [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP]


class Controllers:
    """Two `square controller --stand-by`, each at an address of its own."""

    def __init__(self, stack: ExitStack, store: Path | str) -> None:
        self._stack = stack
        self._store = store
        self._processes: list[subprocess.Popen[str]] = []
        self.addresses: list[str] = []
        for _ in range(2):
            process, address = self._start("127.0.0.1:0")
            self._processes.append(process)
            self.addresses.append(address)
            # The first leads before there is a second.
            assert wait_until(lambda: any(self.leads(i) for i in range(len(self.addresses))), TIMEOUT_SECONDS)

    def _start(self, bind: str) -> tuple[subprocess.Popen[str], str]:
        command = ["controller", "--bind", bind, "--stand-by", "--store", self._store]
        return self._stack.enter_context(serving(*command))

    def connected(self, which: int) -> int:
        try:
            nodes = square.list_nodes(self.addresses[which], timeout=1)
        except SquareError:
            return -1
        return sum(node.connected for node in nodes)

    def leads(self, which: int) -> bool:
        return self.connected(which) >= 0

    def end(self, which: int, how: signal.Signals) -> float:
        """Seconds until all nodes are with the other one."""
        begun = time.monotonic()
        self._processes[which].send_signal(how)
        assert wait_until(lambda: self.connected(1 - which) == len(NAMES), TIMEOUT_SECONDS)
        return time.monotonic() - begun

    def again(self, which: int, how: signal.Signals) -> None:
        """The one that ended stands by anew; what was only stopped finds out that it leads no more."""
        process = self._processes[which]
        if how == signal.SIGSTOP:
            process.send_signal(signal.SIGCONT)
        said = process.communicate(timeout=TIMEOUT_SECONDS)[1]
        if how == signal.SIGSTOP:
            assert process.returncode == 1
            assert "another controller leads" in said
        self._processes[which], _ = self._start(self.addresses[which])


def check_fail_over(store: Path | str, ends: list[signal.Signals], seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    took: list[float] = []
    with ExitStack() as stack:
        controllers = Controllers(stack, store)
        addresses = ",".join(controllers.addresses)
        nodes = {name: stack.enter_context(square.Node(name, addresses)) for name in NAMES}
        job = Job(nodes)
        with job.running():
            leader = 0
            for how in ends:
                time.sleep(chance.uniform(0.1, 1.0))
                groups = job.groups
                took.append(controllers.end(leader, how))
                assert wait_until(
                    lambda known=groups: job.groups > known or bool(job.errors), TIMEOUT_SECONDS
                )
                controllers.again(leader, how)
                leader = 1 - leader
        if job.errors:
            raise job.errors[0]
    print(f"followed after {', '.join(f'{one:.2f}' for one in took)} s; {job.operations} operations")
    assert job.operations > 0


# A killed leader's lease is waited for, 3 s, where the database cannot know that it has ended.
def test_another_controller_leads_where_one_ends_and_no_operation_fails() -> None:
    with postgres() as address:
        check_fail_over(address, ENDS, seed=random.randrange(1 << 30))


def test_controllers_of_one_file_follow_one_another_too(tmp_path: Path) -> None:
    check_fail_over(tmp_path / "store", [signal.SIGKILL], seed=random.randrange(1 << 30))


@pytest.mark.long
def test_twenty_leaders_end_under_traffic() -> None:
    ends = [signal.SIGKILL, signal.SIGSTOP] * 10
    with postgres() as address:
        check_fail_over(address, ends, seed=int(os.environ.get("SQUARE_SEED", random.randrange(1 << 30))))


@pytest.mark.parametrize(("addresses", "words"), [("h:1,nowhere", "nowhere"), (",".join(["h:1"] * 17), "17")])
def test_a_node_that_is_told_wrong_addresses_hears_it(addresses: str, words: str) -> None:
    with pytest.raises(SquareError) as raised:
        square.Node("a", addresses)
    assert words in str(raised.value)
