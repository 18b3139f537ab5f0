"""How the ranks of a group find one another and one controller, through the store of torch.

Every rank puts up a card. Rank 0 reads all of them, decides which rank is on which node and under which
controller (its own, if no rank names one), and publishes the layout. The first rank of each host joins as a
node, opens a gateway if others need it, and the rest of the host attaches to that.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import square
from square import hosts
from square.planning import with_policy
from square.torch import presence
from square.torch.agreement import Agreement, SupersededError, agree
from square.torch.compression import DEFAULT_COMPRESSION
from square.torch.options import DEFAULT_ALGORITHM, Options, login_name
from square.torch.own_identity import believing, own_identity
from square.torch.rendezvous import Rendezvous
from square.torch.site import ATTACH_SECONDS, SITES, Site, is_lone, lone_key
from square.torch.terms import Terms, check_terms, check_unchanged, refuse_own_overlay, trusted_gateway


@dataclass(frozen=True)
class Card:
    """What rank 0 must know of a rank."""

    host: str
    node: str
    is_named: bool
    controller: str
    gateway: str
    known: dict[str, str]
    mark: str = ""
    """Of its process: presence.py."""
    owned: tuple[str, ...] = ()
    """The keys of the sites whose node is this process itself."""
    kept: tuple[str, ...] = ()
    """The addresses of the controllers in this process."""
    fingerprint: str = ""
    """Of the process's own identity."""

    def key(self, controller: str) -> str:
        """Under which address the rank's process keeps its site."""
        return _site_key(self.gateway, controller)


@dataclass(frozen=True)
class Layout:
    """What rank 0 decided. Lists have an entry for every rank.

    `owners` says whose process is its node itself; `keeper` is the rank whose process has the controller.
    """

    group: str
    tenant: str
    algorithm: str
    compression: str
    controller: str
    fingerprints: list[str]
    nodes: list[str]
    leaders: list[int]
    hosts: list[str]
    marks: list[str]
    owners: list[bool]
    keeper: int | None
    gateway: str = ""
    """Where the first rank's node takes in others, if that is known before they ask."""
    weight: float | None = None
    """The tenant's, where the job's own processes have the controller; see Site.weight."""
    redundancy: int = 0
    """Of broadcasts; see Options."""

    @property
    def terms(self) -> Terms:
        return Terms(
            self.tenant,
            self.algorithm,
            self.compression,
            self.controller,
            self.fingerprints,
            self.weight,
            self.redundancy,
        )

    @property
    def sends_nothing(self) -> bool:
        """Whether all ranks share a node, under a controller of their own, which plans everything."""
        return self.keeper is not None and len(set(self.nodes)) == 1


def join(
    meeting: Rendezvous,
    group: str,
    given: Any,
    register: Callable[[Site, Layout], square.Communicator],
) -> tuple[Site, Layout, square.Communicator]:
    """Finds or makes this process's site, and registers there; every rank of the group calls it, with its
    Options or None.

    Raises ValueError and TypeError for options that cannot be, RuntimeError for what another rank met with
    and for ranks that do not come, errors of square, those of `register`. Blocks for the timeout at
    most at each step.
    """
    options = given

    def make_card() -> dict[str, Any]:
        nonlocal options
        options = Options.resolve(options)
        return vars(_own_card(options))

    def attend(agreement: Agreement) -> tuple[Site, Layout, square.Communicator]:
        return _join_once(meeting, agreement, group, options, register)

    return agree(meeting, make_card, attend, _may_live)


def _join_once(
    meeting: Rendezvous,
    agreement: Agreement,
    group: str,
    options: Options,
    register: Callable[[Site, Layout], square.Communicator],
) -> tuple[Site, Layout, square.Communicator]:
    """As join(). Raises SupersededError where another meeting has taken this one's place."""
    own: Site | None = None
    if meeting.rank == 0:
        layout, own = _decide(agreement.gather(), group, options)
        check_terms(options, layout.terms)
        agreement.announce(vars(layout))
    else:
        layout = Layout(**agreement.layout())
        check_terms(options, layout.terms)
        places = zip(layout.hosts, layout.marks, strict=True)
        agreement.know([{"host": host, "mark": mark} for host, mark in places])
        if layout.fingerprints:
            believing(layout.fingerprints)  # also where this process's site is there already
    key = _site_key(options.gateway or "", layout.controller)
    site: Site | None = None
    try:
        site = SITES.acquire(key, lambda: own or _open(meeting, layout, options))
        _publish(meeting, layout, site)
        # Only a gateway's own processes know its node's name.
        names = [name or str(meeting.get(f"node/{rank}")) for rank, name in enumerate(layout.nodes)]
        found, complete = site, replace(layout, nodes=names)
        return site, complete, agreement.settle(lambda: register(found, complete))
    except BaseException as error:
        try:
            if isinstance(error, Exception) and not isinstance(error, SupersededError):
                agreement.doubt(error)
                _publish_failure(meeting, layout, error)
        finally:
            if site is not None:
                SITES.release(site)
        raise


def _site_key(gateway: str, controller: str) -> str:
    return f"gateway {gateway}" if gateway else controller


def _may_live(card: dict[str, Any]) -> bool:
    """Whether the process that has put up the card may be there, which is known on its own host only."""
    is_near = card.get("host") == hosts.host_key() and bool(card.get("mark"))
    return not is_near or presence.is_there(card["mark"])


def _own_card(options: Options) -> Card:
    return Card(
        host=hosts.host_key(),
        node=options.node or _certified_name(options) or socket.gethostname(),
        is_named=options.node is not None or bool(_certified_name(options)),
        controller=options.controller or "",
        gateway=options.gateway or "",
        known=SITES.known(),
        mark=presence.own_mark(),
        owned=tuple(SITES.owned()),
        kept=tuple(SITES.kept()),
        fingerprint=own_identity().fingerprint,
    )


def _certified_name(options: Options) -> str:
    """What the given identity calls its node; empty without one."""
    if not options.identity or not options.controller:
        return ""
    return (square.Identity(options.identity).name or "").rpartition("/")[2]


def _decide(texts: list[dict[str, Any]], group: str, options: Options) -> tuple[Layout, Site | None]:
    """The layout for ranks with these cards, and rank 0's site where it comes with an embedded controller."""
    own: Site | None = None
    tenant = options.tenant or login_name()
    cards = [Card(**text) for text in texts]
    controller = _controller_of(cards)
    if not controller and not all(card.gateway for card in cards):
        own = _found_overlay(options, tenant, cards)
        controller = own.key
    nodes, leaders = _assign(cards, controller, is_shared=own is None)
    layout = Layout(
        group=f"torch/{secrets.token_hex(8)}/{group}",
        tenant=tenant,
        algorithm=options.algorithm or DEFAULT_ALGORITHM,
        compression=str(options.compression or DEFAULT_COMPRESSION),
        controller=controller,
        fingerprints=_fingerprints(cards, own.identity if own is not None else SITES.identity(controller)),
        nodes=nodes,
        leaders=leaders,
        hosts=[card.host for card in cards],
        marks=[card.mark for card in cards],
        owners=[_is_node(card, controller, leaders[rank] == rank) for rank, card in enumerate(cards)],
        keeper=0 if own is not None else _keeper(cards, controller),
        # Now rather than after the layout: that would be another turn of the store.
        gateway=own.gateway if own is not None and leaders.count(0) > 1 else "",
        weight=own.weight if own is not None else SITES.weight(controller),
        redundancy=options.redundancy or 0,
    )
    return layout, own


def _fingerprints(cards: list[Card], identity: square.Identity | None) -> list[str]:
    """Those that an overlay of the job's own keys is to believe."""
    is_own = identity is not None and identity.name is None
    return [card.fingerprint for card in cards] if is_own else []


def _controller_of(cards: list[Card]) -> str:
    """The controller's address; empty if there is none yet."""
    named = next((card.controller for card in cards if card.controller), "")
    if named:
        return named
    with_gateway = [card.gateway for card in cards if card.gateway]
    if with_gateway and len(with_gateway) < len(cards):
        rank = next(rank for rank, card in enumerate(cards) if not card.gateway)
        raise ValueError(
            f"others attach to a gateway ({with_gateway[0]}), but rank {rank} has neither a gateway nor a "
            "controller: set SQUARE_CONTROLLER to the gateway's own"
        )
    for address in reversed(SITES.shared()):
        if all(address in card.known for card in cards) or _takes_in_all(address, cards):
            return address
    return ""


def _takes_in_all(address: str, cards: list[Card]) -> bool:
    """Whether ranks that are not in that overlay yet can come into it."""
    is_one_host = len({card.host for card in cards}) == 1
    if not is_lone(address):
        if hosts.is_loopback(address):
            return is_one_host
        # Who keeps the controller has to believe those that come, and hears of them here.
        return _keeper(cards, address) is not None
    leaders = _assign(cards, address, is_shared=True)[1]
    return is_one_host and all(address in cards[leader].known for leader in leaders)


def _found_overlay(options: Options, tenant: str, cards: list[Card]) -> Site:
    """Rank 0's place in an overlay of its own: a node alone if all use that, else one with a controller."""
    nodes, leaders = _assign(cards, "", is_shared=False)
    is_one_host = len({card.host for card in cards}) == 1 and not options.interface
    if is_one_host and not any(leaders):
        # No gRPC: neither a server nor a line to it.
        return Site(lone_key(), square.Node(nodes[0]))
    refuse_own_overlay(options)
    weight = options.weight or 1.0
    identity: square.Identity | None = None
    if is_one_host:
        address = hosts.LOOPBACK
    else:
        address = hosts.public_address(options.interface, os.environ.get("MASTER_ADDR"))
        identity = believing([card.fingerprint for card in cards])
    controller = _own_controller(address, tenant, weight, identity, standing_by=False)
    host = _join_node(nodes[0], controller.address, options, identity, controller, 0)
    return Site(controller.address, host, identity=identity, controller=controller, weight=weight)


def _own_controller(
    address: str, tenant: str, weight: float, identity: square.Identity | None, *, standing_by: bool
) -> square.Controller:
    # What will be called is not known yet, and this policy plans everything.
    overlay = square.Scenario(square.Topology(), tenants=[square.Tenant(tenant, weight)], name="torch")
    scenario = with_policy(overlay, policy="exact")
    return square.Controller(
        scenario, bind_address=f"{address}:0", identity=identity, standing_by=standing_by
    )


def _assign(cards: list[Card], controller: str, *, is_shared: bool) -> tuple[list[str], list[int]]:
    """For every rank its node's name (empty if only its gateway knows) and whose node it uses.

    A rank that leads itself has a place already, makes one now, or has a gateway by its options.
    """
    leaders = list(range(len(cards)))
    nodes = [card.known.get(card.key(controller), "") for card in cards]
    first: dict[tuple[str, str], int] = {}
    # Who is there already takes in others of its host.
    for rank, card in enumerate(cards):
        if nodes[rank] and not card.gateway:
            first.setdefault((card.host, card.node), rank)
    for rank, card in enumerate(cards):
        if nodes[rank] or card.gateway:
            continue
        leaders[rank] = first.setdefault((card.host, card.node), rank)
        if leaders[rank] != rank:
            nodes[rank] = nodes[leaders[rank]]
        elif card.is_named or is_shared:
            nodes[rank] = card.node
        else:
            nodes[rank] = _free_name(card.node, nodes)
    return nodes, leaders


def _is_node(card: Card, controller: str, leads: bool) -> bool:
    key = card.key(controller)
    return key in card.owned or (leads and key not in card.known and not card.gateway)


def _keeper(cards: list[Card], controller: str) -> int | None:
    return next((rank for rank, card in enumerate(cards) if controller in card.kept), None)


def _free_name(wish: str, taken: list[str]) -> str:
    """Containers may all have the same host name."""
    name, number = wish, 1
    while name in taken:
        number += 1
        name = f"{wish}-{number}"
    return name


def _open(meeting: Rendezvous, layout: Layout, options: Options) -> Site:
    if options.gateway:
        attached = square.attach(options.gateway, tenant=layout.tenant, timeout=ATTACH_SECONDS)
        return Site(f"gateway {options.gateway}", attached, gateway=options.gateway)
    leader = layout.leaders[meeting.rank]
    if leader == meeting.rank:
        return join_overlay(
            layout.nodes[meeting.rank], layout.controller, layout.terms, options, meeting.rank
        )
    told = layout.gateway if leader == 0 and layout.gateway else str(meeting.get(f"gateway/{leader}"))
    gateway = trusted_gateway(options, told)
    identity = _identity_of(options, layout.terms)
    attached = square.attach(gateway, tenant=layout.tenant, timeout=ATTACH_SECONDS)
    return Site(layout.controller, attached, identity=identity, gateway=gateway)


def _identity_of(options: Options, terms: Terms) -> square.Identity | None:
    """By which this process knows its controller and other nodes."""
    if terms.fingerprints:
        return believing(terms.fingerprints)
    if not options.identity or is_lone(terms.controller):
        return None
    return square.Identity(options.identity)


def join_overlay(name: str, controller: str, terms: Terms, options: Options, standing: int) -> Site:
    """A node of that name, under the controller at that address now; it brings one of its own that stands by,
    where the job's processes have the controller."""
    identity = _identity_of(options, terms)
    successor = None
    if terms.weight is not None:
        address = _node_address(controller, options)
        successor = _own_controller(address, terms.tenant, terms.weight, identity, standing_by=True)
    host = _join_node(name, controller, options, identity, successor, standing)
    return Site(terms.controller, host, identity=identity, controller=successor, weight=terms.weight)


def _join_node(
    name: str,
    controller: str,
    options: Options,
    identity: square.Identity | None,
    successor: square.Controller | None,
    standing: int,
) -> square.Node:
    address = _node_address(controller, options)
    return square.Node(
        name,
        controller,
        bind_address=f"{address}:0",
        identity=identity,
        successor=successor,
        standing=standing,
    )


def _node_address(controller: str, options: Options) -> str:
    if options.interface:
        return hosts.interface_address(options.interface)
    if hosts.is_loopback(controller):
        return hosts.LOOPBACK
    return hosts.public_address(None, hosts.split_address(controller)[0])


def meet_again(
    meeting: Rendezvous, site: Site, communicator: square.Communicator, terms: Terms, end: float
) -> Layout:
    """The layout of a group that is there: where each rank is. Rank 0's `terms` hold; each rank has its own,
    from before or from the invitation.

    Blocks until `end` (time.monotonic()) at most. Raises a barrier's errors, RuntimeError for the store's,
    and ValueError for terms by which this rank would believe others than before.
    """
    if meeting.rank == 0:
        meeting.put("terms", vars(terms))
    is_owner = isinstance(site.host, square.Node)
    place = [hosts.host_key(), site.name, presence.own_mark(), is_owner, site.has_controller]
    # As at any meeting: the cards tell who has come.
    meeting.put(f"card/{meeting.rank}", place)
    meeting.has(f"card/{meeting.rank}")  # the store has it, then
    # The group hears of a rank that dies, the store does not.
    communicator.barrier(timeout=max(0.0, end - time.monotonic()))
    agreed = Terms(**meeting.get("terms"))
    check_unchanged(terms, agreed)
    if is_lone(site.key):  # another node than before, perhaps
        agreed = replace(agreed, controller=site.key)
    places = meeting.get_all([f"card/{rank}" for rank in range(meeting.size)])
    keys, names, marks, owners, keepers = (list(column) for column in zip(*places, strict=True))
    return Layout(
        group=communicator.name,
        **vars(agreed),
        nodes=names,
        leaders=list(range(meeting.size)),
        hosts=keys,
        marks=marks,
        owners=owners,
        keeper=keepers.index(True) if True in keepers else None,
    )


def _leads_others(layout: Layout, rank: int) -> bool:
    return any(leader == rank != other for other, leader in enumerate(layout.leaders))


def _publish(meeting: Rendezvous, layout: Layout, site: Site) -> None:
    """What others wait for: where to attach, and the node's name if they do not know it."""
    is_known = meeting.rank == 0 and bool(layout.gateway)
    if _leads_others(layout, meeting.rank) and not is_known:
        meeting.put(f"gateway/{meeting.rank}", site.gateway)
    if not layout.nodes[meeting.rank]:
        meeting.put(f"node/{meeting.rank}", site.name)


def _publish_failure(meeting: Rendezvous, layout: Layout, error: Exception) -> None:
    for key in ("gateway", "node"):
        meeting.fail(f"{key}/{meeting.rank}", error)
