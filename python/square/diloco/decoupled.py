"""The decoupled mode: members train each at its speed, and nobody waits for who is slow or dead.

It is DiLoCo's interface over square.ps. Group rank 0 runs the master, the first `servers` members a server,
and every member is a worker. The group is needed until all have begun; what comes then goes over the servers.
"""

import json
import logging
import os
import weakref
from collections import deque
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from torch import distributed as dist

from square import hosts
from square.diloco import agreement
from square.diloco.diloco import MOST_ROUNDS, DiLoCo
from square.diloco.hosting import Host, address_for, check_unused, identity_of, make_terms
from square.diloco.outer import Nesterov
from square.diloco.report import Exchange
from square.errors import FailedPreconditionError, SquareError
from square.ps import Worker

_log = logging.getLogger("square.diloco")

# Of the beginning, of waiting for a round, and of the last push, unless `timeout` says another.
USUAL_SECONDS = 600.0
FINISH_SECONDS = 30.0


class Decoupled(DiLoCo):
    """What DiLoCo(..., mode="decoupled") makes.

    model, inner, group:  as of DiLoCo; a DTensor is refused. The group is needed until all have begun.
    sync_every:  inner steps from one push to the next. It may be another on each member.
    outer:       Nesterov(lr, momentum), done by the servers, delayed: as many rounds as hold a push of each
                 member go as far as a round of all. USUAL_OUTER if None.
    compression: of pushes: "bf16", or "none" (None) for float32.
    quorum:      an outer round begins with so many pushes, or one of every member that lives. Who has pushed
                 waits for it.
    grace:       seconds in which others may still join it; "auto": a twentieth of the time between two pushes
                 of a member.
    servers:     the first so many members keep a part of the model each. While one of them is gone nothing is
                 committed, so 1, which is rank 0, is the surest; more share what comes in.
    snapshots:   the servers' folder, in which each has one of its own; None: a temporary one. Members that
                 begin again on it go on from the newest version.
    join:        "peers": others may join at any time, with the text of invitation(); or "none".
    invitation:  this process joins, and needs no group. The master's terms hold, not its own.
    timeout:     of the beginning and of waiting for a round, 10 minutes if None; of the last push, 30 s; and
                 how long who serves stays for those that train on at its end, without end if None.

    Other arguments of DiLoCo are refused unless they are the usual ones. Raises ValueError. Not thread-safe.
    """

    history: deque[Exchange]  # type: ignore[assignment]

    def __init__(
        self,
        model: Any,
        inner: Any,
        *,
        group: Any = None,
        sync_every: int = 500,
        outer: Nesterov | None = None,
        mode: str = "decoupled",
        compression: str | None = "bf16",
        weight: str = "tokens",
        join: str = "none",
        invitation: str = "",
        timeout: timedelta | None = None,
        quorum: int = 1,
        grace: "float | timedelta | Literal['auto']" = "auto",
        servers: int = 1,
        snapshots: "str | os.PathLike[str] | None" = None,
        **others: Any,
    ) -> None:
        agreement.check_choice("mode", mode, ("decoupled",))
        check_unused(others, weight)
        agreement.check_choice("join", join, ("none", "peers"))
        self._agreed = make_terms(outer, compression, quorum, grace, servers, join)
        if sync_every < 1:
            raise ValueError(f"sync_every: at least 1 step, not {sync_every}")
        self._named = agreement.trained(model, inner)
        for name, parameter in self._named:
            if hasattr(parameter, "device_mesh"):
                raise ValueError(
                    f'mode: "decoupled" pushes whole tensors, and {name} is sharded: see square.ps.Worker'
                )
        self._place = _read(invitation, group, join) if invitation else []
        self.inner = inner
        self.sync_every = sync_every
        self.history = deque(maxlen=MOST_ROUNDS)
        self._given_group = group
        self._is_invited = bool(invitation)
        self._snapshots = snapshots
        self._limit = None if timeout is None else timeout.total_seconds()
        self._host: Host | None = None
        self._worker: Worker | None = None
        self._hook: Any = None
        self._steps = 0
        self._own_tokens = 0
        self._says_tokens = False
        self._steps_given = 0  # to the worker, and of tokens what follows
        self._tokens_given = 0
        # What the worker had when it left, or a state that was loaded.
        self._version = 0
        self._tokens = 0

    def __enter__(self) -> "Decoupled":
        """Blocks until all members have begun, all with the parameters of rank 0, or with the newest version
        of the snapshots; who was invited begins with the newest version. Raises ValueError where models or
        terms differ or snapshots do not fit, RuntimeError for what befell another member, and square's
        errors."""
        try:
            if self._is_invited:
                self._start_worker("")
            else:
                self._meet()
        except BaseException:
            self._leave()
            raise
        itself = weakref.ref(self)

        def count(*_: Any) -> None:
            if (diloco := itself()) is not None:
                diloco._after_step()

        self._hook = self.inner.register_step_post_hook(count)
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        """Pushes what is left. A member that serves stays until the others need it no more, and rank 0 ends
        with the newest version; where an exception leaves, nobody is waited for."""
        self._hook.remove()
        try:
            if kind is None:
                self.sync()
            self._leave_worker()
            if kind is None and self._host is not None:
                self._stay(self._host)
        finally:
            self._leave()

    @property
    def group(self) -> Any:
        """That all began in. It does not hear of members that are gone."""
        return dist.group.WORLD if self._given_group is None else self._given_group

    def invitation(self) -> str:
        """What another process must know to join, as text; it holds the secret of master and servers. Raises
        ValueError where nobody is taken in."""
        if self._agreed.join != "peers" or self._worker is None:
            raise ValueError('diloco: nobody is taken in: pass join="peers", and ask inside the `with`')
        return json.dumps({"decoupled": self._place})

    @property
    def tokens(self) -> int:
        """In the version that the model goes on from, and consumed here since: for schedules. Inner steps of
        members that have said no tokens."""
        if self._worker is None:
            return self._tokens
        return self._worker.tokens + self._not_given()

    @property
    def version(self) -> int:
        """That the model goes on from; 0 before the `with`."""
        return self._version if self._worker is None else self._worker.version

    def consumed(self, tokens: int) -> None:
        """As of DiLoCo. Where a member says some, all should: otherwise its inner steps count."""
        if tokens < 0:
            raise ValueError(f"consumed: at least 0 tokens, not {tokens}")
        self._says_tokens = True
        self._own_tokens += int(tokens)

    def sync(self) -> None:
        """Pushes what is left, and takes over what comes of it. Others need not call it, and members do not
        have the same model after it. Blocks for `timeout`, or FINISH_SECONDS, at the most; the log says if
        something is in no version by then."""
        if self._worker is None:
            raise ValueError("diloco: sync() is for the inside of the `with`")
        self._give()
        is_done = self._worker.finish(FINISH_SECONDS if self._limit is None else self._limit)
        self._note()
        if not is_done:
            _log.warning(
                "what was trained since version %d is not known to be in one that all share", self.version
            )

    def state_dict(self) -> dict[str, Any]:
        """This member's clock, and the version that the servers' snapshots have at least: they are the
        checkpoint, of the model and the outer state. Inside the `with` it pushes what is left before, as
        sync() does."""
        if self._worker is not None:
            self.sync()
        clock = {"steps": self._steps, "tokens": self._own_tokens}
        return {"clock": clock, "decoupled": {"version": self.version, "tokens": self.tokens}}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Before the `with`, which then needs snapshots of that version or a newer one. Raises ValueError for
        another mode's, and inside the `with` where the servers' version is older."""
        if "decoupled" not in saved:
            raise ValueError(
                "diloco: the state is of another mode. To go on from it load the model, and begin anew: "
                'mode="decoupled" takes no outer state but that of its snapshots'
            )
        clock, at = saved["clock"], saved["decoupled"]
        self._steps, self._own_tokens = clock["steps"], clock["tokens"]
        self._steps_given, self._tokens_given = self._steps, self._own_tokens
        self._version, self._tokens = at["version"], at["tokens"]
        if self._worker is not None:
            self._check_version(self._worker.version)

    def _meet(self) -> None:
        if self.group is None:
            raise ValueError("diloco: there is no default group: call init_process_group, or pass a group")
        group, rank, size = self.group, dist.get_rank(self.group), dist.get_world_size(self.group)
        device = agreement.device_for(group, self._named[0][1])

        def describe() -> list[Any]:
            self._agreed.check_size(size)
            return [hosts.host_key(), self._agreed.described()]

        said = agreement.together(group, device, describe)
        for other, (_, described) in enumerate(said):
            if found := agreement.difference(said[0][1], described, "rank 0", f"rank {other}"):
                raise ValueError(f"diloco: {found}")
        keys = [key for key, _ in said]
        host = self._host = Host(self._agreed, rank, self._snapshots)
        lead = agreement.together(
            group, device, lambda: host.lead(size, lambda: address_for(group, keys, self._agreed.join))
        )
        self._place = lead[0]
        have = agreement.together(group, device, lambda: host.serve(self._place, self._start_limit))

        def start(is_turn: bool) -> None:
            if is_turn and rank == 0 and any(have):
                host.check_found(self._start_limit)
            if is_turn:
                self._start_worker(f"member{rank}")

        # The first worker of all brings the model.
        agreement.together(group, device, lambda: start(rank == 0))
        agreement.together(group, device, lambda: start(rank > 0))

    @property
    def _start_limit(self) -> float:
        return USUAL_SECONDS if self._limit is None else self._limit

    def _start_worker(self, name: str) -> None:
        worker = Worker(
            dict(self._named),
            master=self._place[0],
            identity=identity_of(self._place),
            name=name,
            timeout=self._start_limit,
        )
        try:
            self._check_version(worker.version)
        except ValueError:
            worker.leave()
            raise
        self._worker = worker

    def _check_version(self, there: int) -> None:
        if there < self._version:
            raise ValueError(
                f"snapshots: the servers have version {there}, and this member's state is of "
                f"{self._version}: pass snapshots=, the folder of then, or begin anew without the state"
            )

    def _after_step(self) -> None:
        self._steps += 1
        if self._steps % self.sync_every or self._worker is None:
            return
        self._give()
        try:
            self._worker.sync()
        except FailedPreconditionError:
            return  # 0 tokens: what was learned comes with the next push
        self._note()

    def _not_given(self) -> int:
        if self._says_tokens:
            return self._own_tokens - self._tokens_given
        return self._steps - self._steps_given

    def _give(self) -> None:
        assert self._worker is not None
        if tokens := self._not_given():
            self._worker.consumed(tokens)
        self._steps_given, self._tokens_given = self._steps, self._own_tokens

    def _note(self) -> None:
        """What the worker's syncs came to, since the last call."""
        assert self._worker is not None
        while self._worker.history:
            one = self._worker.history.popleft()
            is_in = one.outcome in ("adopted", "refused")
            if is_in and (one.reason or one.decision == "non-finite"):
                agreement.forget(self.inner, [parameter for _, parameter in self._named])
            decision = one.decision if one.outcome == "adopted" else ""
            loss = "" if one.outcome == "adopted" else one.reason
            self._add(Exchange(one.version, self._steps, one.outcome, decision, one.seconds, loss))

    def _add(self, new: Exchange) -> None:
        """To the history. Of a push that is tried again between two inner steps it has the last try."""
        last = self.history[-1] if self.history else None
        if new.loss and (last is None or new.loss != last.loss):
            _log.warning("a push of what was trained on version %d %s: %s", new.number, new.outcome, new.loss)
        if last is not None and last.inner_step == new.inner_step and last.outcome != "adopted":
            self.history.pop()
            new = replace(new, waited_seconds=last.waited_seconds + new.waited_seconds)
        self.history.append(new)

    def _stay(self, host: Host) -> None:
        """Others may be training. Rank 0 takes what they have come to."""
        host.wait_for_others(self._limit)
        if host.version() <= self._version:
            return
        try:
            self._start_worker("newest")
        except SquareError as error:
            _log.warning("the model is of version %d, and there is a newer one: %s", self._version, error)
        self._leave_worker()

    def _leave_worker(self) -> None:
        if self._worker is not None:
            self._version, self._tokens = self._worker.version, self.tokens
            self._worker.leave()
            self._worker = None

    def _leave(self) -> None:
        self._leave_worker()
        if self._host is not None:
            self._host.stop()
            self._host = None


def _read(invitation: str, group: Any, join: str) -> list[str]:
    """The master's address and its members' key. Raises ValueError."""
    if join != "peers":
        raise ValueError('invitation: who joins passes join="peers", as the members did')
    if group is not None:
        raise ValueError("invitation: who joins has no group")
    try:
        address, pem = json.loads(invitation)["decoupled"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError('invitation: it is not of members with mode="decoupled"') from error
    return [str(address), str(pem)]
