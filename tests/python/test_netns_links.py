"""A link between two of six sites that fails in one direction, during all-reduces over all of them."""

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import square
from commands import wait_until
from conftest import REPOSITORY
from square.errors import SquareError
from square.planning import with_policy
from square.run import namespaces
from square.run.sites import Sites

NAMES = ["a", "b", "c", "d", "e", "f"]
TAIL, HEAD = "c", "d"
MEMBER = REPOSITORY / "tests" / "netns" / "all_reducing.py"
CAPACITY_BPS = 5e6
PLANNED_SECONDS = 60.0
# A second of silence, the look that finds it, the plan.
AROUND_SECONDS = 2.0
# What a full machine adds; nobody waits for the link to heal.
PATIENCE_SECONDS = 15.0
HEALED_SECONDS = 60.0
# Of traffic under each plan.
SOME_SECONDS = 4.0


@pytest.fixture
def sites() -> Iterator[Sites]:
    try:
        namespaces.check_possible()
        with Sites(square.Topology.full_mesh(NAMES, capacity_bps=CAPACITY_BPS)) as made:
            yield made
    except SquareError as error:
        pytest.skip(str(error))


class Job:
    """One member at each site, and their controller."""

    def __init__(self, sites: Sites) -> None:
        topology = square.Topology.full_mesh(NAMES, capacity_bps=CAPACITY_BPS)
        scenario = with_policy(square.Scenario(topology, name="six"), policy="exact")
        self._sites = sites
        self.controller = sites.controller(scenario)
        self._members = [
            sites.start(
                name,
                [sys.executable, "-P", str(MEMBER), str(rank), *NAMES],
                sites.environment(name, self.controller),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for rank, name in enumerate(NAMES)
        ]

    def uses(self, tail: str, head: str) -> bool:
        """Whether the plan that is active has anything on the link."""
        plan = self.controller.plan()
        if plan is None:
            return False
        sessions = json.loads(plan.to_json())["sessions"]
        return any([tail, head] in stream["links"] for session in sessions for stream in session["streams"])

    def drop(self, tail: str, head: str) -> None:
        """Nothing that the one sends to the other arrives, and nobody is told: it is for another card."""
        self._ip(
            tail, head, "neighbour replace {address} dev {device} lladdr 02:00:00:00:00:fe nud permanent"
        )

    def heal(self, tail: str, head: str) -> None:
        self._ip(tail, head, "neighbour delete {address} dev {device}")

    def _ip(self, tail: str, head: str, line: str) -> None:
        words = line.format(address=self._sites.address_of(head), device=f"to{NAMES.index(head)}")
        self._sites.network(tail).run(lambda: namespaces.run_batch("ip", [words]))

    def end(self) -> list[tuple[float, float]]:
        """When each operation of the first member began, and how long it took; none failed."""
        try:
            print("end", file=self._members[0].stdin, flush=True)
            lines = [_lines_until_over(member) for member in self._members]
            rests = [member.communicate(timeout=PLANNED_SECONDS) for member in self._members]
        finally:
            for member in self._members:
                member.kill()
            self.controller.stop()
        for member, said, (_, errors) in zip(self._members, lines, rests, strict=True):
            assert member.returncode == 0, errors
            assert said
        return [(float(begun), float(took)) for begun, took in map(str.split, lines[0])]


def _lines_until_over(member: subprocess.Popen[str]) -> list[str]:
    """What it says before that; nothing where it ends without."""
    assert member.stdout is not None
    return list(itertools.takewhile(lambda line: line != "over\n", member.stdout))


def test_a_one_way_partition_is_routed_around_and_the_link_used_again(sites: Sites) -> None:
    job = Job(sites)
    try:
        assert wait_until(lambda: job.uses(TAIL, HEAD) and job.uses(HEAD, TAIL), PLANNED_SECONDS)
        time.sleep(SOME_SECONDS)
        cut_at = time.monotonic()
        job.drop(TAIL, HEAD)
        # What it sends back is heard by nobody either: no connection lives of one direction alone.
        is_around = wait_until(lambda: not job.uses(TAIL, HEAD) and not job.uses(HEAD, TAIL), 20)
        around = time.monotonic() - cut_at
        time.sleep(SOME_SECONDS)
        job.heal(TAIL, HEAD)
        healed_at = time.monotonic()
        is_used = wait_until(lambda: job.uses(TAIL, HEAD) and job.uses(HEAD, TAIL), HEALED_SECONDS)
        again = time.monotonic() - healed_at
        time.sleep(SOME_SECONDS)
    finally:
        first = job.end()
    before = [took for begun, took in first if begun + took < cut_at][1:]
    stalled = max(took for begun, took in first if cut_at - took < begun < cut_at + AROUND_SECONDS)
    after = [took for begun, took in first if begun > healed_at + again]
    print(f"around {around:.2f} s, again {again:.2f} s; usual {max(before):.2f} s, longest {stalled:.2f} s")
    assert is_around
    assert stalled < PATIENCE_SECONDS
    assert is_used
    assert min(after) < 1.5 * max(before)
