"""What `square top` makes of what nodes say: a row for each collective, in 100 columns."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from square.cli import traffic
from square.watch.collectives import collectives_of
from square.watch.rates import View

Row = dict[str, Any]
NODES = (
    "frankfurt-de-1",
    "sao-paulo-br-1",
    "sydney-au-1",
    "tokyo-jp-1",
    "a-very-long-name-of-a-site.example",
)
TENANTS = ("alice", "bob", "a-tenant-with-a-long-name")


def session(node: str, **changes: Any) -> Row:
    row = {
        "node": node,
        "tenant": "alice",
        "collective": 253_800_000,
        "session": 2_538_000_000,
        "kind": "multicast",
        "planned_bps": 80e6,
        "planned_sent_bps": 0.0,
        "planned_received_bps": 80e6,
        "sent_bps": 0.0,
        "received_bps": 40e6,
        "delivered_bps": 40e6,
        "bytes_delivered": 10**9,
        "queue_blocks": 0,
        "queue_bytes": 0,
        "blocks_resent": 0,
        "of_plan": 0.5,
    }
    return {**row, **changes}


def link(tail: str, head: str, **changes: Any) -> Row:
    row = {
        "from": tail,
        "to": head,
        "is_up": True,
        "channels": 16,
        "rate_bps": 12_345.678e6,
        "wire_bps": 12_400e6,
        "planned_bps": 13_000e6,
        "capacity_bps": 13_800.123e6,
        "utilisation": 0.5,
        "queue_blocks": 1234,
        "queue_bytes": 1_234_567_890,
        "blocks_resent": 12345,
        "round_trip_seconds": 0.26123,
        "bytes": 10**12,
    }
    return {**row, **changes}


def busy_overlay() -> View:
    """Five nodes, three tenants, two collectives each, and twenty sessions a collective."""
    sessions = [
        session(
            node,
            tenant=tenant,
            collective=253_800_000 + 2 * number + of,
            session=2_538_000_000 + 100 * (2 * number + of) + index,
        )
        for number, tenant in enumerate(TENANTS)
        for of in range(2)
        for index in range(20)
        for node in NODES
    ]
    tenants = [
        {
            "tenant": tenant,
            "planned_bps": 13_000e6,
            **{f"{way}_bps": 12_345.6e6 for way in ("sent", "planned_sent", "received", "planned_received")},
            "delivered_bps": 12_345.6e6,
            "of_plan": 0.95,
            "bytes_in_transit": 1_234_567_890,
            "bytes_held": 1_234_567_890,
        }
        for tenant in TENANTS
    ]
    links = [link(tail, head) for tail in NODES for head in NODES if tail != head]
    nodes = [{"address": "x", "node": node, "epoch": 253_800, "reason": None} for node in NODES]
    return View(nodes, links, sessions, tenants)


def printed(view: View, by: str | None) -> list[str]:
    out = StringIO()
    Console(file=out, width=200, highlight=False).print(traffic.rendered(view, by))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_five_nodes_and_three_tenants_fit_a_screen() -> None:
    lines = printed(busy_overlay(), None)
    assert max(map(len, lines)) <= 100
    assert len(lines) < 50
    text = "\n".join(lines)
    assert "sessions, Mbit/s" not in text
    rows = [line for line in lines if "multicast" in line]
    assert len(rows) == 6
    assert [row.split()[1] for row in rows] == [f"..000{number}" for number in (4, 5, 0, 1, 2, 3)]
    # Mbit/s of twenty sessions, and half of what is planned.
    assert rows[0].split()[-4:] == ["20", "1600", "800.0", "50.0%"]


@pytest.mark.parametrize("by", list(traffic.TABLES))
def test_every_table_fits_into_100_columns(by: str) -> None:
    lines = printed(busy_overlay(), by)
    assert max(map(len, lines)) <= 100
    if by == "session":
        assert all(line.count("multicast") == 1 for line in lines[5:])
        assert len(lines) == 5 + 6 * 20 * 5


def test_short_ids_tell_numbers_apart() -> None:
    assert traffic.short_ids([]) == {}
    assert traffic.short_ids([0, 12]) == {0: "0", 12: "12"}
    assert traffic.short_ids([2538000000, 2538000001]) == {2538000000: "..0000", 2538000001: "..0001"}
    assert traffic.short_ids([1_000_000, 2_000_000]) == {1_000_000: "1000000", 2_000_000: "2000000"}
    assert traffic.short_ids([5, 253_800_007]) == {5: "5", 253_800_007: "..0007"}


@pytest.mark.parametrize(
    ("changes", "links", "held_by"),
    [
        ({}, [{"utilisation": 0.97}], "link a -> b is full"),
        ({}, [{"is_up": False}], "link a -> b is down"),
        ({"queue_blocks": 3, "queue_bytes": 9}, [], "the queue at b"),
        ({}, [], "its source sends no more"),
        ({"delivered_bps": 79e6}, [{"utilisation": 0.97}], "the plan"),
        ({"delivered_bps": 0.0}, [], "no call is under way"),
        ({"delivered_bps": None}, [], "-"),
    ],
)
def test_what_holds_a_collective(changes: Row, links: list[Row], held_by: str) -> None:
    source = session(
        "a",
        planned_sent_bps=80e6,
        planned_received_bps=0.0,
        sent_bps=40e6,
        delivered_bps=0.0,
        bytes_delivered=0,
    )
    view = View([], [link("a", "b", **one) for one in links], [source, session("b", **changes)], [])
    (row,) = collectives_of(view)
    assert row["held_by"] == held_by
    assert row["planned_bps"] == 80e6


def test_a_sum_and_its_result_count_once() -> None:
    shares = [
        session("a", kind=kind, session=number, planned_bps=40e6, delivered_bps=20e6)
        for number, kind in enumerate(("reduce", "multicast"))
    ]
    (row,) = collectives_of(View([], [], shares, []))
    assert (row["planned_bps"], row["measured_bps"], row["kinds"]) == (40e6, 20e6, ["multicast", "reduce"])


def test_of_a_source_alone_what_it_sends_counts() -> None:
    source = session(
        "a",
        planned_sent_bps=160e6,
        planned_received_bps=0.0,
        sent_bps=80e6,
        bytes_delivered=0,
        delivered_bps=0.0,
    )
    (row,) = collectives_of(View([], [], [source], []))
    assert row["measured_bps"] == 40e6
