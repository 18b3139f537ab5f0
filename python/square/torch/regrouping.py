"""Process groups that go on without ranks that are gone, and with others that join.

The store that brought the ranks together may have gone with rank 0. So the new group brings one of its own:
its rank 0 serves it, and tells the others where, through the group.
"""

import json
import socket
import time
from datetime import timedelta
from typing import Any

from torch import distributed as dist
from torch.distributed import distributed_c10d as c10d

import square
from square import hosts
from square.torch.bootstrap import join_overlay
from square.torch.calls import Calls
from square.torch.options import Options
from square.torch.own_identity import adopt, own_identity
from square.torch.process_group import NAME, ProcessGroup
from square.torch.site import SITES, Site, is_lone
from square.torch.terms import Terms, check_terms

# Where the store is, in as many bytes.
_PLACE_BYTES = 512
# The rank that serves the store may be gone before all are connected. torch does not tell that from one that
# is late: it tries two or three times as long.
_CONNECT_SECONDS = 3.0
_CONNECT_TRIES = 3
_JOINER_STANDING = 1 << 16
# Ranks whose connection the store has not accepted yet; as torch has it.
_STORE_BACKLOG = 2048


def shrink(
    group: Any = None, timeout: timedelta | None = None, *, allow_minority: bool = False
) -> ProcessGroup:
    """The group without the ranks that are gone; every rank that lives calls it, also after failures.

    The survivors keep their order, and all get the same group; it needs neither the store of the old one nor
    its rank 0. Without `group`, the default group shrinks, and the new one takes its place: groups made of it
    before go on, and count ranks as they did. The old group is closed. Where another rank dies meanwhile the
    rest go on without it, too. Where ranks may live that nobody hears, and go on elsewhere, more than half of
    all must be here, or half with the lowest; with `allow_minority`, on all of them, any may: then two groups
    may train that know nothing of each other. Where it fails it may be called again, and nothing else on that
    group. Raises torch's DistBackendError, which names the nodes of ranks that are neither here nor gone, or
    says that the process was stopped and is not to go on alone; TypeError for a group of another backend.
    Blocks for `timeout` in all, the group's own without one.
    """
    return _go_on(0, group, timeout, allow_minority)


def grow(joiners: int, group: Any = None, timeout: timedelta | None = None) -> ProcessGroup:
    """As shrink(), and so many processes join behind the survivors, with join()."""
    return _go_on(joiners, group, timeout, allow_minority=False)


def _go_on(joiners: int, group: Any, timeout: timedelta | None, allow_minority: bool) -> ProcessGroup:
    old = _group_of(group)
    calls = old.calls
    end = time.monotonic() + (timeout or calls.timeout).total_seconds()
    operation = "grow" if joiners else "shrink"
    try:
        return _go_on_until(end, old, calls, joiners, allow_minority)
    except (square.SquareError, RuntimeError) as error:
        raise calls.error(operation, error) from error


def _go_on_until(
    end: float, old: ProcessGroup, calls: Calls, joiners: int, allow_minority: bool
) -> ProcessGroup:
    # Those that join are asked for once. Otherwise each round that fails has lost a rank more.
    for left_over in reversed(range(1 if joiners else old.size())):
        calls.go_on(joiners, max(0.0, end - time.monotonic()), allow_minority)
        try:
            made = _made(calls.site, calls.communicator, calls.terms, calls.timeout, end)
            break
        except (square.SquareError, RuntimeError):
            if not left_over or time.monotonic() >= end:
                raise
    calls.let_go()
    _take_place(old, made, calls.origin)
    return made


def invitation(group: Any = None, *, with_key: bool = True) -> str:
    """What a process must know to join() the group, as text. Where the job's processes know one another by
    their keys it holds this one's, a secret: whoever has it is believed in its place. `with_key`: False for
    who has a key of the job already, see take_key()."""
    old = _group_of(group)
    calls = old.calls
    if is_lone(calls.terms.controller):
        raise ValueError(
            "square: the group has all its ranks on one node, which stands alone: nobody can join"
        )
    pem = own_identity().pem if with_key and calls.terms.fingerprints else ""
    return json.dumps([calls.controller, calls.communicator.name, vars(calls.terms), pem])


def take_key(invited: str) -> None:
    """This process is believed by the key of the invitation, if there is one."""
    if pem := json.loads(invited)[3]:
        adopt(pem)


def join(invited: str, options: Options | None = None, timeout: timedelta | None = None) -> ProcessGroup:
    """The group whose ranks call grow(), as one of those that join it, which is its default group then.

    `invited` is an invitation() of any of its ranks. Raises errors of square, and ValueError where this
    process has a default group, or was given another controller than the invitation has, or an identity that
    the group's processes are not of. Blocks for `timeout`, torch's default without one.
    """
    if dist.is_initialized():
        raise ValueError("square: a process that joins a group has no default group before")
    controller, name, fields, _ = json.loads(invited)
    terms = Terms(**fields)
    own = Options.resolve(options)
    check_terms(own, terms)
    take_key(invited)
    limit = timeout or c10d.default_pg_timeout
    end = time.monotonic() + limit.total_seconds()
    name_here, address = own.node or hosts.unique_name(), own.controller or controller
    site = SITES.acquire(
        terms.controller, lambda: join_overlay(name_here, address, terms, own, _JOINER_STANDING)
    )
    try:
        communicator = square.Communicator.join(site.host, name, timeout=limit.total_seconds())
        made = _made(site, communicator, terms, limit, end)
    except BaseException:
        SITES.release(site)
        raise
    _take_place(None, made, [])
    return made


def _group_of(group: Any) -> ProcessGroup:
    found = group if group is not None else c10d._get_default_group()
    if not isinstance(found, ProcessGroup):
        raise TypeError(f"{found} is not a process group of the backend square")
    return found


def _made(
    site: Site, communicator: square.Communicator, terms: Terms, timeout: timedelta, end: float
) -> ProcessGroup:
    """The process group over a communicator that is there, with `timeout`. Blocks until `end` at most."""
    store = _common_store(communicator, site, terms, timeout, end)
    name = _name_of(communicator)
    calls = Calls.going_on(name, timeout, store, site, communicator, terms, end)
    return ProcessGroup(store, communicator.rank, communicator.size, calls)


def _name_of(communicator: square.Communicator) -> str:
    return communicator.name.rpartition("/")[2]


def _common_store(
    communicator: square.Communicator, site: Site, terms: Terms, timeout: timedelta, end: float
) -> Any:
    place = bytearray(_PLACE_BYTES)
    store: Any = None
    if communicator.rank == 0:
        address = _store_address(site, terms)
        store = _serve_store(address, timeout)
        text = json.dumps([address, store.port])
        place[:] = text.encode().ljust(_PLACE_BYTES)
    left = max(0.001, end - time.monotonic())
    communicator.broadcast(place, root=0, timeout=left)
    if store is None:
        address, port = json.loads(place)
        left = max(0.001, end - time.monotonic())
        patience = timedelta(seconds=min(_CONNECT_SECONDS, left / _CONNECT_TRIES))
        store = dist.TCPStore(address, port, None, False, patience, wait_for_workers=False)
        store.set_timeout(timeout)
    return store


def _store_address(site: Site, terms: Terms) -> str:
    """An overlay whose controller is on the loopback has all its nodes on this host."""
    is_near = is_lone(site.key) or (not site.address and hosts.is_loopback(terms.controller))
    if is_near:
        return hosts.LOOPBACK
    return hosts.reachable_address(site.address)


def _serve_store(address: str, timeout: timedelta) -> Any:
    """A store at that address alone: by itself torch listens on all interfaces."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listener = socket.create_server((address, 0), family=family, backlog=_STORE_BACKLOG)
    except OSError as error:
        raise RuntimeError(f"the group's store cannot listen at {address}: {error.strerror}") from error
    port = listener.getsockname()[1]
    return dist.TCPStore(
        address, port, None, True, timeout, wait_for_workers=False, master_listen_fd=listener.detach()
    )


def _take_place(old: ProcessGroup | None, made: ProcessGroup, origin: list[int]) -> None:
    """Makes torch know the group, and forget the one that it was."""
    name = _name_of(made.calls.communicator)
    world = c10d._world
    is_default = old is None or old is c10d._get_default_group()
    ranks = {rank: rank for rank in range(made.size())}
    if old is not None and not is_default:
        before = {group_rank: rank for rank, group_rank in world.pg_group_ranks[old].items()}
        ranks = {before[rank]: place for place, rank in enumerate(origin)}
        # Those that joined are behind all that there were.
        last = max(world.pg_group_ranks[c10d._get_default_group()], default=-1)
        for place in range(len(origin), made.size()):
            last += 1
            ranks[last] = place
    if old is not None:
        world.pg_map.pop(old, None)
        world.pg_group_ranks.pop(old, None)
        world.pg_backend_config.pop(old, None)
        tag = world.pg_to_tag.pop(old, None)
        for groups in (world.tags_to_pg.get(tag, []), world.tags_to_pg.get("", [])):
            if old in groups:
                groups.remove(old)
        c10d._unregister_process_group(world.pg_names.pop(old))
    made._set_group_name(name)
    world.pg_map[made] = (NAME, made.get_group_store())
    world.pg_names[made] = name
    world.pg_group_ranks[made] = ranks
    world.pg_backend_config[made] = str(c10d.BackendConfig(dist.Backend(NAME)))
    world.pg_to_tag[made] = ""
    world.tags_to_pg.setdefault("", []).append(made)
    c10d._register_process_group(name, made)
    if is_default:
        c10d._update_default_pg(made)
