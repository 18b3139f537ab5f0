"""A new node for the processes of one host whose node, which stood alone, went with its process.

There is no controller to ask who goes on, and no store, but all are on one host: the kernel says who lives
(presence.py), and processes write to one another's marks. The lowest rank that lives leads. It waits until
all that live have asked it, founds a node, and tells them where.
"""

import re
import time
from dataclasses import dataclass
from typing import Any

import square
from square.errors import DeadlineExceededError
from square.torch import presence
from square.torch.site import ATTACH_SECONDS, SITES, Site, lone_key

_PAUSE_SECONDS = 0.02


@dataclass(frozen=True)
class Refounded:
    """Where a group goes on; `ranks` are those that it had before, by rank."""

    site: Site
    name: str
    ranks: list[int]


def refound(group: str, node: str, marks: list[str], own: int, tenant: str, seconds: float) -> Refounded:
    """The place where those ranks of the group go on whose processes live; `marks` are theirs, by rank.

    The site is to be released. Raises DeadlineExceededError, which names the ranks that do not ask.
    """
    end = time.monotonic() + seconds
    asked: set[int] = set()
    while True:
        alive = [rank for rank, mark in enumerate(marks) if rank == own or presence.is_there(mark)]
        if alive[0] == own:
            asked.update(message["ask"] for message in presence.heard(group) if "ask" in message)
            awaited = [rank for rank in alive if rank != own and rank not in asked]
            if not awaited:
                return _lead(group, node, [(rank, marks[rank]) for rank in alive], own)
        else:
            awaited = alive[:1]
            presence.say(marks[alive[0]], group, {"ask": own})
            for message in presence.heard(group):
                if "gateway" in message:
                    return _follow(group, message, tenant)
        if time.monotonic() >= end:
            names = ", ".join(map(str, awaited))
            raise DeadlineExceededError(f"group {group!r} cannot go on yet: it waits for rank {names}")
        time.sleep(_PAUSE_SECONDS)


def _lead(group: str, node: str, members: list[tuple[int, str]], own: int) -> Refounded:
    key = lone_key()
    site = SITES.acquire(key, lambda: Site(key, square.Node(node)))
    ranks = [rank for rank, _ in members]
    gateway = site.gateway if len(ranks) > 1 else ""
    for rank, mark in members:
        if rank != own:
            presence.say(mark, group, {"gateway": gateway, "key": key, "ranks": ranks})
    return Refounded(site, next_name(group), ranks)


def _follow(group: str, message: dict[str, Any], tenant: str) -> Refounded:
    key, gateway = message["key"], message["gateway"]
    site = SITES.acquire(
        key, lambda: Site(key, square.attach(gateway, tenant=tenant, timeout=ATTACH_SECONDS), gateway=gateway)
    )
    return Refounded(site, next_name(group), message["ranks"])


def next_name(group: str) -> str:
    """As controllers name groups that go on."""
    found = re.fullmatch(r"(.*)~(\d+)", group)
    return f"{found[1]}~{int(found[2]) + 1}" if found else f"{group}~1"
