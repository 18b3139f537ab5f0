"""A link between two of six sites that fails in one direction, during all-reduces over all of them."""

import time
from collections.abc import Iterator

import pytest
import square
from commands import wait_until
from site_members import SiteMembers
from square.errors import SquareError
from square.planning import with_policy
from square.run import namespaces
from square.run.sites import Sites

NAMES = ["a", "b", "c", "d", "e", "f"]
TAIL, HEAD = "c", "d"
FLOATS = 250_000
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


def job_of(sites: Sites) -> SiteMembers:
    topology = square.Topology.full_mesh(NAMES, capacity_bps=CAPACITY_BPS)
    scenario = with_policy(square.Scenario(topology, name="six"), policy="exact")
    return SiteMembers(sites, NAMES, scenario, "all_reduce", FLOATS)


def drop(sites: Sites, tail: str, head: str) -> None:
    """Nothing that the one sends to the other arrives, and nobody is told: it is for another card."""
    _ip(sites, tail, head, "neighbour replace {address} dev {device} lladdr 02:00:00:00:00:fe nud permanent")


def heal(sites: Sites, tail: str, head: str) -> None:
    _ip(sites, tail, head, "neighbour delete {address} dev {device}")


def _ip(sites: Sites, tail: str, head: str, line: str) -> None:
    words = line.format(address=sites.address_of(head), device=f"to{NAMES.index(head)}")
    sites.network(tail).run(lambda: namespaces.run_batch("ip", [words]))


def test_a_one_way_partition_is_routed_around_and_the_link_used_again(sites: Sites) -> None:
    job = job_of(sites)
    try:
        assert wait_until(lambda: job.uses(TAIL, HEAD) and job.uses(HEAD, TAIL), PLANNED_SECONDS)
        time.sleep(SOME_SECONDS)
        cut_at = time.monotonic()
        drop(sites, TAIL, HEAD)
        # What it sends back is heard by nobody either: no connection lives of one direction alone.
        is_around = wait_until(lambda: not job.uses(TAIL, HEAD) and not job.uses(HEAD, TAIL), 20)
        around = time.monotonic() - cut_at
        time.sleep(SOME_SECONDS)
        heal(sites, TAIL, HEAD)
        healed_at = time.monotonic()
        is_used = wait_until(lambda: job.uses(TAIL, HEAD) and job.uses(HEAD, TAIL), HEALED_SECONDS)
        again = time.monotonic() - healed_at
        time.sleep(SOME_SECONDS)
    finally:
        job.say_end()
        first = job.wait()
        job.end()
    before = [took for begun, took in first if begun + took < cut_at][1:]
    stalled = max(took for begun, took in first if cut_at - took < begun < cut_at + AROUND_SECONDS)
    after = [took for begun, took in first if begun > healed_at + again]
    print(f"around {around:.2f} s, again {again:.2f} s; usual {max(before):.2f} s, longest {stalled:.2f} s")
    assert is_around
    assert stalled < PATIENCE_SECONDS
    assert is_used
    assert min(after) < 1.5 * max(before)
