"""Links whose capacity changes under a broadcast: what is measured, planned, and lost in time."""

import os
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
from square.run.wiring import shaper

# Two ways from the first to the last, by one relay each.
NAMES = ["a", "b", "c", "d"]
LINKS = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d")]
FADING = ("a", "b")
FULL_BPS, FADED_BPS = 100e6, 20e6
FLOATS = 30_000_000
UNDISTURBED_SECONDS = 1.5
PLANNED_SECONDS = 60.0
SEEN_SECONDS = 3.0
# What a machine adds on which other tests run; the figure is printed.
PATIENCE = 10.0
PART_OF_OPTIMUM = 1.15
AGAIN_SECONDS = 60.0
IS_LONG = os.environ.get("SQUARE_LONG") == "1"


# The last link of a chain, which carries three quarters of what it could. It takes a second to measure one.
CHAIN = {("a", "b"): 9.14e6, ("b", "c"): 12.55e6}
CHAIN_FLOATS = 1_250_000


def topology() -> square.Topology:
    made = square.Topology()
    for name in NAMES:
        made.add_node(name)
    for tail, head in LINKS:
        for one, other in ((tail, head), (head, tail)):
            made.add_link(one, other, capacity_bps=FULL_BPS)
    return made


@pytest.fixture
def sites() -> Iterator[Sites]:
    try:
        namespaces.check_possible()
        with Sites(topology()) as made:
            yield made
    except SquareError as error:
        pytest.skip(str(error))


def shape(sites: Sites, link: tuple[str, str], bps: float) -> None:
    tail, head = link
    line = f"qdisc change dev to{NAMES.index(head)} root {shaper(bps, FULL_BPS)}"
    sites.network(tail).run(lambda: namespaces.run_batch("tc", [line]))


def test_a_link_that_fades_under_a_broadcast_is_planned_as_it_is(sites: Sites) -> None:
    scenario = with_policy(square.Scenario(topology(), name="ways"), policy="exact")
    job = SiteMembers(sites, NAMES[::3], scenario, "broadcast", FLOATS, relays=NAMES[1:3])
    try:
        assert wait_until(lambda: job.uses(*FADING), PLANNED_SECONDS)
        job.say_end()
        time.sleep(UNDISTURBED_SECONDS)
        faded_at = time.monotonic()
        shape(sites, FADING, FADED_BPS)
        is_seen = wait_until(lambda: 0 < job.planned_bps(*FADING) < 1.1 * FADED_BPS, PATIENCE)
        seen = time.monotonic() - faded_at
        measured = job.planned_bps(*FADING)
        operations = job.wait()
        again = None
        if IS_LONG:
            shape(sites, FADING, FULL_BPS)
            risen_at = time.monotonic()
            assert wait_until(lambda: job.planned_bps(*FADING) > 0.9 * FULL_BPS, 2 * AGAIN_SECONDS)
            again = time.monotonic() - risen_at
    finally:
        job.end()
    begun, took = operations[-1]
    bits = 32.0 * FLOATS - (faded_at - begun) * 2 * FULL_BPS
    optimum = faded_at - begun + bits / (FULL_BPS + FADED_BPS)
    print(f"seen after {seen:.2f} s as {measured / 1e6:.1f} Mbit/s; {took:.2f} s, optimum {optimum:.2f} s")
    print(f"used again after {again} s")
    assert len(operations) == 1
    assert is_seen
    assert measured == pytest.approx(FADED_BPS, rel=0.1)
    if IS_LONG:
        assert seen < SEEN_SECONDS
        assert took < PART_OF_OPTIMUM * optimum
        assert again < AGAIN_SECONDS


def test_a_link_that_carries_all_it_is_given_says_nothing() -> None:
    """Blocks leave in bursts that meet their own queue, and the end of each is acknowledged late."""
    chain = square.Topology()
    for name in NAMES[:3]:
        chain.add_node(name)
    for (tail, head), bps in CHAIN.items():
        chain.add_link(tail, head, capacity_bps=bps)
        chain.add_link(head, tail, capacity_bps=FULL_BPS)
    scenario = with_policy(square.Scenario(chain, name="chain"), policy="exact")
    try:
        namespaces.check_possible()
        made = Sites(chain)
    except SquareError as error:
        pytest.skip(str(error))
    with made as sites:
        job = SiteMembers(sites, ["a", "c"], scenario, "broadcast", CHAIN_FLOATS, relays=["b"])
        try:
            assert wait_until(lambda: job.uses("b", "c"), PLANNED_SECONDS)
            job.say_end()
            ((_, took),) = job.wait()
            planned = job.planned_bps("b", "c")
        finally:
            job.end()
    print(f"{took:.2f} s, planned with {planned / 1e6:.2f} Mbit/s")
    assert took > 32 * CHAIN_FLOATS / CHAIN["a", "b"]
    assert planned == CHAIN["b", "c"]
