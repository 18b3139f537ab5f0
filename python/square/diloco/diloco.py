"""DiLoCo on a model: when its fragments are exchanged, and what an inner step has to do with it."""

import logging
import time
import weakref
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from torch import distributed as dist

from square.diloco import agreement, state
from square.diloco.advice import Links, parts_of
from square.diloco.fragments import Fragment
from square.diloco.joining import Peers
from square.diloco.outer import Nesterov, Outer
from square.diloco.recovery import go_on
from square.diloco.report import Round
from square.diloco.rounds import LostRoundError, Outcome, Rounds
from square.diloco.shares import ANY, Share, Shares, Turn, newcomer
from square.diloco.sums import Sums

_log = logging.getLogger("square.diloco")

# Rounds that `history` keeps.
MOST_ROUNDS = 1000
# Rounds in a row that fail without anybody being gone: then it is no member's loss, and is an error.
MOST_FAILURES = 5


class DiLoCo:
    """Exchanges a model's changes with the other members of a group every so many inner steps.

    model:       a module, or pairs of names and parameters. What requires no gradient is left out, and so are
                 buffers, which stay every member's own. DTensors are exchanged by shard: `group` has the same
                 shard of every site, and nothing is gathered.
    inner:       the optimizer that trains it; its steps are counted by a hook, inside the `with`.
    group:       of torch.distributed, the default group if None. Over square it goes on without members that
                 are gone; over others their loss is an error.
    sync_every:  inner steps from one exchange of a fragment to the next.
    outer:       makes the outer optimizer of the parameters that all share: see Nesterov.
    fragments:   1, P or "balanced:P", or a sequence of modules. They take turns, sync_every / P steps apart.
                 "plan": as many as have time, by the planner's rate, with a delay that hides the exchange, if
                 none is given.
    links:       what "plan" goes by.
    mode:        "sync"; or "eager": a fragment is under way until its next turn, and the outer step takes
                 this member's fresh change with the others' of the turn before: see ahead.py; or
                 "decoupled": nobody waits for anybody. What follows is then as Decoupled has it.
    fragment_sync_delay:    inner steps that go on while a fragment is under way.
    fragment_update_alpha:  how much of the member's own parameters stays when a fragment arrives: 0 to 1.
    compression: of the changes: "none", "bf16", "fp16"; over square "int8", "top-k:0.01", with ":feedback".
    weight:      "tokens": by what consumed() was told, or by inner steps if nobody says any; or "equal".
    on_lost_round:  "carry": it is left out, and what was learned comes with the next; or "raise".
    backup_device:  where what all share is kept, in float32.
    join:        "peers": other processes may join later, with an invitation() of any member; or "none".
    invitation:  this process joins, takes model and outer state from all members at once, and has no `group`.
    timeout:     of going on without members that are gone, and of joining; None: the group's.
    decoupled:   quorum, grace, servers and snapshots of mode="decoupled".

    All members start with the parameters of rank 0 of the group. Raises ValueError for arguments that cannot
    be. Not thread-safe.
    """

    def __new__(cls, *_: Any, mode: str = "sync", **__: Any) -> "DiLoCo":
        if mode == "decoupled" and cls is DiLoCo:
            from square.diloco.decoupled import Decoupled  # which is one, and needs this class

            return super().__new__(Decoupled)
        return super().__new__(cls)

    def __init__(
        self,
        model: Any,
        inner: Any,
        *,
        group: Any = None,
        sync_every: int = 500,
        outer: Outer | None = None,
        fragments: int | str | Sequence[Any] = 1,
        links: Links | None = None,
        mode: str = "sync",
        fragment_sync_delay: int | None = None,
        fragment_update_alpha: float = 0.0,
        compression: str = "bf16",
        weight: str = "tokens",
        on_lost_round: str = "carry",
        backup_device: Any = "cpu",
        join: str = "none",
        invitation: str = "",
        timeout: timedelta | None = None,
        **decoupled: Any,
    ) -> None:
        named = agreement.trained(model, inner)
        agreement.check_choices(weight, on_lost_round, join)
        agreement.check_mode(mode, fragment_sync_delay or 0, fragment_update_alpha, decoupled)
        if invitation:
            agreement.check_joiner(named, group, join)
        parts, delay = parts_of(named, fragments, links, sync_every, compression)
        delay = delay if fragment_sync_delay is None else fragment_sync_delay
        agreement.check_numbers(sync_every, len(parts), delay, fragment_update_alpha)
        self.inner = inner
        self.sync_every = sync_every
        self.history: deque[Round] = deque(maxlen=MOST_ROUNDS)
        self._given_group = group
        self._group: Any = None
        self._is_eager = mode == "eager"
        self._delay = sync_every if self._is_eager else delay
        self._alpha = fragment_update_alpha
        self._carries = on_lost_round == "carry"
        self._timeout = timeout
        self._terms = {
            "sync_every": sync_every,
            "mode": mode,
            "fragment_sync_delay": self._delay,
            "fragment_update_alpha": fragment_update_alpha,
            "compression": compression,
            "weight": weight,
            "on_lost_round": on_lost_round,
            "join": join,
        }
        made = [Fragment(part, backup_device) for part in parts]
        self._fragments = [
            Rounds(number, part, outer or Nesterov(), Sums(compression), weight, mode)
            for number, part in enumerate(made)
        ]
        self._peers = Peers(join, self._fragments)
        self._invitation = invitation
        self._knocks = False  # somebody waits for being taken in
        self._steps = 0
        self._tokens = 0
        self._begun = 0  # rounds of all fragments, as the schedule has them
        self._failures = 0  # in a row
        self._lost_until = 0  # so many of them are lost, begun here or not
        self._has_base = False
        self._hook: Any = None

    def __enter__(self) -> "DiLoCo":
        """Blocks until all members are here, or, for who joins, until their next exchange is over. Raises
        ValueError where their models differ."""
        if self._invitation:
            self._enter_late()
            self._invitation = ""
        else:
            self._enter()
        self._has_base = True
        itself = weakref.ref(self)

        def count(*_: Any) -> None:
            if (diloco := itself()) is not None:
                diloco._after_step()

        self._hook = self.inner.register_step_post_hook(count)
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        """Waits for what is under way, but not where an exception leaves."""
        self._hook.remove()
        self._peers.close()
        if kind is None:
            return self._land()
        for rounds in self._fragments:
            rounds.lose()

    @property
    def group(self) -> Any:
        """The group as it is now: members may be gone."""
        return self._given_group if self._group is None else self._group

    def invitation(self) -> str:
        """What another process must know to join, as text; it holds the overlay's secret. Raises ValueError
        where nobody is taken in."""
        return self._peers.invitation(self._group)

    @property
    def steps(self) -> int:
        """This member's inner steps."""
        return self._steps

    @property
    def tokens(self) -> int:
        """That all members together have consumed, as far as they have told one another: for schedules."""
        return self._fragments[0].group_tokens

    def consumed(self, tokens: int) -> None:
        """Counts tokens, or examples: what this member's changes weigh. Before the step that learns from them
        they count in its round, after it in the next. Raises ValueError below 0."""
        if tokens < 0:
            raise ValueError(f"consumed: at least 0 tokens, not {tokens}")
        self._tokens += int(tokens)

    def sync(self) -> None:
        """Exchanges all fragments now: all members have the same model then. All call it. Blocks."""
        self._land()
        for rounds in self._fragments:
            for _ in range(dist.get_world_size(self._group)):
                self._begin(rounds, self._steps, more=rounds is not self._fragments[-1])
                if self._finish(rounds):
                    break
            else:
                raise RuntimeError(
                    f"diloco: fragment {rounds.number} is not in sync: {self.history[-1].loss}"
                )
            rounds.adopt()

    def state_dict(self) -> dict[str, Any]:
        """For torch.distributed.checkpoint: what all share by parameter's name, as the parameters are
        (DTensors, too), this member's clock and what error feedback keeps. What is under way is finished
        first, so all members call it at the same step."""
        self._land()
        clock = {"steps": self._steps, "tokens": self._tokens}
        return {"clock": clock, **state.save(self._fragments)}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Before the `with`, after the model is loaded. Raises ValueError for another model's."""
        state.load(self._fragments, saved)
        clock = saved["clock"]
        self._steps, self._tokens = clock["steps"], clock["tokens"]
        self._has_base = True

    def _enter(self) -> None:
        group = self._given_group if self._group is None else self._group
        self._group = dist.group.WORLD if group is None else group
        if self._group is None:
            raise ValueError("diloco: there is no default group: call init_process_group, or pass a group")
        for rounds in self._fragments:
            rounds.sums.check(self._group)
        agreement.check_same(self._group, self._fragments, self._terms)
        agreement.start_alike(self._group, self._fragments, has_base=self._has_base)
        self._peers.open(self._group, agreement.describe(self._fragments, self._terms))

    def _enter_late(self) -> None:
        description = agreement.describe(self._fragments, self._terms)
        self._group, clock = self._peers.enter(self._invitation, description, self._timeout)
        self._steps, self._begun = clock["steps"], clock["begun"]
        for rounds in self._fragments:
            rounds.adopt()
        self._follow()

    def _follow(self) -> None:
        """Takes part in the others' next round, in which nothing has changed here: then this member is where
        they are."""
        is_on = True
        while is_on:
            shares = Shares(newcomer(), self._group, self._fragments[0].fragment.change.device)
            try:
                leader = shares.leader()
                rounds = self._fragment_of(leader)
                rounds.follow(self._group, shares)
            except RuntimeError as error:
                self._go_on(None, LostRoundError(str(error)))
                continue
            self._steps, self._begun = leader.turn.step, leader.turn.begun
            if self._is_eager and self._steps < leader.turn.due:
                break  # until then there is time to train
            while self._steps < leader.turn.due:
                self._pass()
                self._after_step()
            is_on = (rounds.flight is not None and not self._finish(rounds)) or leader.turn.more
        self._pass(0)
        if self._knocks:
            self._admit()

    def _fragment_of(self, leader: Share) -> Rounds:
        if leader.fragment >= len(self._fragments):
            raise RuntimeError(f"diloco: the others are in fragment {leader.fragment}, which is not here")
        return self._fragments[leader.fragment]

    def _pass(self, steps: int = 1) -> None:
        """Steps of the others, which this member has not made."""
        for rounds in self._fragments:
            rounds.start_at(self._steps + steps, self._tokens)

    def _after_step(self) -> None:
        self._steps += 1
        for rounds in self._fragments:
            if rounds.flight is not None and rounds.flight.due <= self._steps:
                self._finish(rounds)
        for rounds in self._fragments:
            if not self._ends_at(rounds, self._steps + self._delay):
                continue
            self._begin(rounds, self._steps + self._delay)
            if not self._delay:
                self._finish(rounds)
        if self._knocks:
            self._admit()

    def _admit(self) -> None:
        """Takes in those that have asked any member. All are at the same step."""
        self._land()
        self._knocks = False
        try:
            count = self._peers.welcome(self._group)
        except RuntimeError as error:
            return self._go_on(None, LostRoundError(str(error)))
        if count:
            self._go_on(None, LostRoundError(f"{count} join"), count)

    def _land(self) -> None:
        """Finishes what is under way, in the order in which it began."""
        under_way = [one for one in self._fragments if one.flight is not None]
        for rounds in sorted(under_way, key=lambda one: one.flight.due if one.flight else 0):
            self._finish(rounds)

    def _ends_at(self, rounds: Rounds, step: int) -> bool:
        first = (rounds.number + 1) * self.sync_every // len(self._fragments)
        return step >= first and (step - first) % self.sync_every == 0

    def _begin(self, rounds: Rounds, due: int, *, more: bool = False) -> None:
        self._begun += 1
        if self._begun <= self._lost_until:
            return self._note_loss(rounds, "another member was lost when others had begun it", 0.0)
        turn = Turn(self._steps, due, self._begun, self._peers.waiting(), more)
        try:
            rounds.begin(self._group, turn, self._tokens)
        except RuntimeError as error:
            self._lose(rounds, LostRoundError(str(error)), 0.0)
        if self._is_eager and not all(one.fragment.is_finite() for one in self._fragments):
            self._heal()

    def _finish(self, rounds: Rounds) -> bool:
        """Whether there is nothing more to exchange: it is committed, or nobody has stepped."""
        if rounds.flight is None:
            return False
        begun = time.monotonic()
        own_weight = rounds.flight.scale.weight(rounds.flight.shares.own)
        try:
            outcome = rounds.finish(self._group)
        except LostRoundError as loss:
            return self._lose(rounds, loss, time.monotonic() - begun)
        self._knocks = self._knocks or any(share.turn.waiting for share in outcome.shares)
        if not self._is_eager:
            rounds.adopt(0.0 if own_weight == 0 else self._alpha)
        if not outcome.shares[dist.get_rank(self._group)].is_finite:
            self._heal()
        self._report(rounds, outcome, time.monotonic() - begun)
        return True

    def _heal(self) -> None:
        """What is not finite here comes from what there was: the next forward goes through all fragments."""
        for rounds in self._fragments:
            if not rounds.fragment.is_finite():
                rounds.restore()
            agreement.forget(self.inner, rounds.fragment.parameters)

    def _lose(self, rounds: Rounds, loss: LostRoundError, waited: float) -> bool:
        """Nothing has changed here. The others lose it, too, or have it for those that are left: true then,
        and of one in which nobody has stepped."""
        before = rounds.committed
        if not self._carries and not loss.is_empty:
            for one in self._fragments:
                one.lose()
            raise RuntimeError(f"diloco: round {before + 1} of fragment {rounds.number} is lost: {loss}")
        if loss.needs_regroup:
            self._go_on(rounds, loss)
        rounds.lose()
        if loss.is_empty or rounds.committed > before:
            return True
        self._note_loss(rounds, str(loss), waited)
        return False

    def _go_on(self, rounds: Rounds | None, loss: LostRoundError, joiners: int = 0) -> None:
        others = [(one, one.committed) for one in self._fragments if one.flight and one is not rounds]
        size = dist.get_world_size(self._group)
        self._group, self._lost_until = go_on(
            self._group, self._fragments, self._begun, self._alpha, self._timeout, joiners, self._hand_over
        )
        self._knocks = False
        for one, before in others:
            if one.committed == before:
                self._note_loss(one, str(loss), 0.0)
        if not all(one.fragment.is_finite() for one in self._fragments):
            self._heal()
        self._failures = self._failures + 1 if dist.get_world_size(self._group) == size else 0
        if self._failures >= MOST_FAILURES:
            raise RuntimeError(
                f"diloco: {MOST_FAILURES} rounds in a row are lost, and nobody is gone: {loss}"
            ) from loss

    def _hand_over(self, group: Any, newcomers: list[int]) -> None:
        clock = {"steps": self._steps, "begun": self._begun, "shared": state.clock(self._fragments)}
        self._peers.introduce(group, newcomers, clock)
        self._peers.serve(group, newcomers)

    def _note_loss(self, rounds: Rounds, reason: str, waited: float) -> None:
        number = rounds.committed + 1
        _log.warning("round %d of fragment %d is lost: %s", number, rounds.number, reason)
        size = dist.get_world_size(self._group)
        self.history.append(Round(number, rounds.number, self._steps, size, 0.0, (), 0.0, 0, waited, reason))

    def _report(self, rounds: Rounds, outcome: Outcome, waited: float) -> None:
        self._failures = 0
        change = rounds.fragment.change
        excluded = tuple(
            rank
            for rank, weight in enumerate(outcome.weights)
            if weight == 0 and outcome.shares[rank].fragment != ANY
        )
        if excluded:
            _log.warning(
                "round %d of fragment %d is without ranks %s: not finite, or 0 tokens",
                rounds.committed,
                rounds.number,
                ", ".join(map(str, excluded)),
            )
        self.history.append(
            Round(
                number=rounds.committed,
                fragment=rounds.number,
                inner_step=self._steps,
                members=len(outcome.shares),
                weight=outcome.weights[dist.get_rank(self._group)],
                excluded=excluded,
                norm=outcome.norm,
                size_bytes=change.numel() * change.element_size(),
                waited_seconds=waited,
            )
        )
