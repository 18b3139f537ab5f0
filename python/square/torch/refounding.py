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

    Where some have been in the next group already when its node went as well, others not, they meet all the
    same: by what the groups' names have in common, and as processes. The site is to be released. Raises
    DeadlineExceededError, which names the ranks that do not ask, and UnavailableError where who led is gone:
    then it may be called again.
    """
    end = time.monotonic() + seconds
    subject = common_name(group)
    asked: set[str] = set()
    while True:
        alive = [rank for rank, mark in enumerate(marks) if rank == own or presence.is_there(mark)]
        if alive[0] == own:
            asked.update(message["ask"] for message in presence.heard(subject) if _is_question(message))
            awaited = [rank for rank in alive if rank != own and marks[rank] not in asked]
            if not awaited:
                return _lead(group, node, marks, alive)
        else:
            awaited = alive[:1]
            presence.say(marks[alive[0]], subject, {"ask": marks[own]})
            for message in presence.heard(subject):
                if _is_place(message, marks) and presence.is_there(message["marks"][0]):
                    return _follow(message, marks, tenant)
        if time.monotonic() >= end:
            names = ", ".join(map(str, awaited))
            raise DeadlineExceededError(f"group {group!r} cannot go on yet: it waits for rank {names}")
        time.sleep(_PAUSE_SECONDS)


def _lead(group: str, node: str, marks: list[str], ranks: list[int]) -> Refounded:
    key, name = lone_key(), next_name(group)
    site = SITES.acquire(key, lambda: Site(key, square.Node(node)))
    gateway = site.gateway if len(ranks) > 1 else ""
    alive = [marks[rank] for rank in ranks]
    for mark in alive[1:]:
        message = {"gateway": gateway, "key": key, "name": name, "marks": alive}
        presence.say(mark, common_name(group), message)
    return Refounded(site, name, ranks)


def _is_question(message: dict[str, Any]) -> bool:
    return isinstance(message.get("ask"), str)


def _is_place(message: dict[str, Any], marks: list[str]) -> bool:
    """Whether it is as _lead() writes it, of processes of this group."""
    found = message.get("marks")
    return (
        all(isinstance(message.get(key), str) for key in ("gateway", "key", "name"))
        and isinstance(found, list)
        and bool(found)
        and all(mark in marks for mark in found)
    )


def _follow(message: dict[str, Any], marks: list[str], tenant: str) -> Refounded:
    key, gateway = message["key"], message["gateway"]
    site = SITES.acquire(
        key, lambda: Site(key, square.attach(gateway, tenant=tenant, timeout=ATTACH_SECONDS), gateway=gateway)
    )
    return Refounded(site, message["name"], [marks.index(mark) for mark in message["marks"]])


def common_name(group: str) -> str:
    """What a group and those that it becomes have in common."""
    return re.sub(r"~\d+$", "", group)


def next_name(group: str) -> str:
    """As controllers name groups that go on."""
    found = re.fullmatch(r"(.*)~(\d+)", group)
    return f"{found[1]}~{int(found[2]) + 1}" if found else f"{group}~1"
