"""Processes that join members who train: asked for in a lobby, agreed on in a round, given what all share."""

import json
import logging
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed import distributed_c10d as c10d

import square
from square import hosts
from square.diloco import lobby, state
from square.diloco.agreement import exchange
from square.diloco.handover import Catalogue, Intake, Server
from square.diloco.recovery import JOIN_LIMIT, NOTHING, Met, meet
from square.diloco.rounds import Rounds
from square.torch.process_group import ProcessGroup
from square.torch.regrouping import invitation, join, shrink, take_key

_log = logging.getLogger("square.diloco")


class Peers:
    """This member's part in taking in others. With join="none" nobody is."""

    def __init__(self, choice: str, fragments: Sequence[Rounds]) -> None:
        self._is_open = choice == "peers"
        self._fragments = fragments
        self._lobby: lobby.Lobby | None = None
        self._places: list[Any] = []
        self._secret = ""
        self._servers: list[Server] = []
        self.intake: Intake | None = None

    def open(self, group: Any, description: Sequence[Any]) -> None:
        """All members call it. Raises ValueError for a group of another backend."""
        if not self._is_open:
            return
        if not isinstance(group, ProcessGroup):
            raise ValueError('diloco: join="peers" needs a group of the backend square')
        self._secret = exchange(self._secret or lobby.new_secret(), group)[0]
        self._open_lobby(group, description)
        self._places = exchange(self._place, group)

    def close(self) -> None:
        if self._lobby is not None:
            self._lobby.close()
            self._lobby = None

    def waiting(self) -> int:
        return self._lobby.waiting() if self._lobby is not None else 0

    def invitation(self, group: Any) -> str:
        """What a process must know to join. Raises ValueError where nobody is taken in."""
        if self._lobby is None:
            raise ValueError('diloco: nobody is taken in: pass join="peers", and ask inside the `with`')
        return json.dumps([self._places, self._secret, invitation(group)])

    def welcome(self, group: Any) -> int:
        """Tells those in all lobbies to join; how many they are. All members call it."""
        own = torch.tensor([self.waiting()])
        dist.all_reduce(own, group=group)
        if count := int(own[0]):
            assert self._lobby is not None
            # The lobby's answers can be read on the way; who asks there has a key.
            self._lobby.welcome(invitation(group, with_key=False))
        return count

    def introduce(self, group: Any, newcomers: Sequence[int], clock: dict[str, Any] | None) -> dict[str, Any]:
        """Everybody hears where all lobbies are, and newcomers the clock. All of the group call it."""
        said = exchange([self._place, clock], group)
        self._places = [place for place, _ in said]
        found: dict[str, Any] = next(given for rank, (_, given) in enumerate(said) if rank not in newcomers)
        return found

    def serve(self, group: Any, newcomers: Sequence[int]) -> None:
        """Gives newcomers what all share, beside the training."""
        self._servers = [one for one in self._servers if one.is_alive()]
        catalogue = Catalogue(state.shared(self._fragments))
        for rank in newcomers:
            self._servers.append(Server(group, catalogue, rank))
            self._servers[-1].start()

    def enter(
        self, invited: str, description: Sequence[Any], timeout: timedelta | None
    ) -> tuple[Any, dict[str, Any]]:
        """Joins the members of an invitation, and takes what they share: the group, and the clock.

        Raises ValueError where the model is not theirs, TimeoutError, RuntimeError where it fails, and
        UnavailableError where all members are gone.
        """
        if dist.is_initialized():
            raise ValueError("diloco: a process that joins has no default group before")
        self._places, self._secret, first = json.loads(invited)
        take_key(first)
        limit = timeout or c10d.default_pg_timeout
        end = time.monotonic() + limit.total_seconds()
        group = self._group_of(description, end, limit)
        last = None
        while True:
            try:
                found = meet(group, self._fragments, NOTHING, 0.0)
                clock = self._met(group, found, description)
                if self.intake is None or clock != last:
                    last, self.intake = clock, Intake(Catalogue(state.take(self._fragments, clock["shared"])))
                self.intake.fetch(
                    group, [rank for rank in range(group.size()) if rank not in found.newcomers]
                )
                return group, clock
            except square.errors.DataLossError:
                raise
            except RuntimeError as error:
                _log.warning("joining goes on without who is gone: %s", error)
                group = shrink(None, limit)

    def _met(self, group: Any, found: Met, description: Sequence[Any]) -> dict[str, Any]:
        if self._lobby is None:
            self._open_lobby(group, description)
        return self.introduce(group, found.newcomers, None)

    def _group_of(self, description: Sequence[Any], end: float, limit: timedelta) -> Any:
        while True:
            text = lobby.ask(self._places, self._secret, description, end)
            try:
                group = join(text, timeout=JOIN_LIMIT)
                group.set_timeout(limit)
                return group
            except (RuntimeError, square.SquareError) as error:
                _log.warning("the members have not taken this process in: %s", error)

    def _open_lobby(self, group: Any, description: Sequence[Any]) -> None:
        self.close()
        address = hosts.reachable_address(group.calls.site.address)
        self._lobby = lobby.Lobby(address, self._secret, description)

    @property
    def _place(self) -> list[Any] | None:
        return self._lobby.place if self._lobby is not None else None
