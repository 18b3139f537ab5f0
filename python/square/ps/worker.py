"""A worker of parameter servers: around a training loop, or step by step."""

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self, cast

from square import _core, hosts
from square.errors import FailedPreconditionError, UnavailableError
from square.identity import IdentitySource
from square.ps.joining import bind_address, wait_for_master
from square.ps.master import Seconds, seconds
from square.ps.tensors import tensors_of

Outcome = Literal["adopted", "skipped", "refused", "goes on"]

# How often a wait looks for Ctrl-C.
_LOOK_SECONDS = 0.1
_HISTORY = 10_000
# At the end of a block: what was trained last is in a version by then, or it is lost with the worker.
_FINISH_SECONDS = 30.0


@dataclass(frozen=True)
class Sync:
    """What came of a push.

    ``outcome``: "adopted": the model goes on from ``version``, which the push is in, or was left out of:
    ``decision`` is "taken", "outlier" or "non-finite". "skipped": nothing was made of it, and its work is in
    the next push. "refused": its work can never count, and the model is the newest version. "goes on": not
    known yet; what comes of it is taken over in a later sync. ``seconds``: how long the trainer waited.
    """

    outcome: Outcome
    version: int
    decision: str
    reason: str
    seconds: float


class Worker:
    """Trains with others through parameter servers, at its own speed.

    ``model``: a torch module, or a dict of tensors or arrays of floats. The first worker of all brings its
    parameters as the first version; all others begin with the newest. With ``inner``, an optimizer of torch,
    every ``sync_every``-th step of it pushes and takes over what comes of that, inside ``with worker:``;
    otherwise call sync(), or push() and pull(). Say what was trained on with consumed().

    A site that trains in parallel gives one worker, on one of its ranks, what it trained.
    """

    def __init__(
        self,
        model: Any,
        inner: Any = None,
        *,
        master: str,
        sync_every: int = 64,
        name: str = "",
        identity: IdentitySource = None,
        insecure: bool = False,
        bind: str = "",
        advertise: str = "",
        timeout: Seconds = 600.0,
    ) -> None:
        if sync_every < 1:
            raise ValueError(f"sync_every is {sync_every}: it is at least 1")
        self.name = name or hosts.unique_name()
        self.sync_every = sync_every
        self.history: deque[Sync] = deque(maxlen=_HISTORY)
        self._timeout = seconds(timeout)
        self._tensors = tensors_of(model)
        self._inner = inner
        self._hook: Any = None
        self._steps = 0
        wait_for_master(master, identity, self._timeout)
        self._load()
        self._worker = _core.ParameterWorker(
            model=[(tensor.name, tensor.dtype, list(tensor.shape)) for tensor in self._tensors],
            tensors=self._buffers(),
            name=self.name,
            master=master,
            identity=identity,
            insecure=insecure,
            bind_address=bind_address(master, bind),
            advertised_address=advertise,
            connect_timeout=self._timeout,
        )
        self._begin()

    def _begin(self) -> None:
        end = time.monotonic() + self._timeout
        while not self._worker.wait_for_first(_LOOK_SECONDS):
            if time.monotonic() > end:
                break
        try:
            self._worker.begin(self._buffers(), 0.0)
        except BaseException:
            self.leave()
            raise
        self._store()

    @property
    def version(self) -> int:
        """That the model goes on from."""
        return self._worker.version

    @property
    def tokens(self) -> int:
        """In that version, and consumed here since: for schedules."""
        return self._worker.tokens

    def consumed(self, tokens: int, chunks: Iterable[int] = ()) -> None:
        """What was trained on since the last call; it belongs to the next push."""
        self._worker.consumed(int(tokens), [int(chunk) for chunk in chunks])

    def push(self) -> None:
        """Gives what was trained since the base, and waits for nothing. Raises FailedPreconditionError where
        nothing was consumed, UnavailableError while the last push is open or no master is there."""
        self._load()
        self._worker.push(self._buffers())

    def pull(self, timeout: Seconds | None = None) -> Sync:
        """Waits for what comes of the last push, as long as all goes well, and takes it over."""
        begun = time.monotonic()
        end = begun + (self._timeout if timeout is None else seconds(timeout))
        while not self._worker.wait(_LOOK_SECONDS) and time.monotonic() < end:
            pass
        self._load()
        outcome, version, decision, reason = self._worker.pull(self._buffers(), 0.0)
        if outcome in ("adopted", "refused"):
            self._store()
        done = Sync(cast(Outcome, outcome), version, decision, reason, time.monotonic() - begun)
        self.history.append(done)
        return done

    def sync(self, timeout: Seconds | None = None) -> Sync:
        """push(), if nothing is open, and pull()."""
        if self._worker.can_push:
            # Where the master has just gone, what was done is carried on.
            with contextlib.suppress(UnavailableError):
                self.push()
        return self.pull(timeout)

    def chunks(self, timeout: Seconds | None = None) -> Iterator[int]:
        """Chunks of the data set, until all are done by somebody. Say each with consumed() once it is
        trained on."""
        while True:
            chunk = self.chunk(timeout)
            if chunk is None:
                return
            yield chunk

    def chunk(self, timeout: Seconds | None = None) -> int | None:
        """One to train on; None once all are done. Waits while others hold the last ones, and syncs what
        this worker holds. Raises DeadlineExceededError."""
        end = time.monotonic() + (self._timeout if timeout is None else seconds(timeout))
        while True:
            given = self._worker.lease(1, _LOOK_SECONDS, time.monotonic() >= end)
            if given is None:
                self._settle()
                continue
            return given[0] if given else None

    def _settle(self) -> None:
        """The last chunks may be those that this worker has not pushed yet."""
        if self._worker.has_work or not self._worker.wait(0.0):
            self._sync_what_is_left(_LOOK_SECONDS)

    def _sync_what_is_left(self, timeout: float) -> bool:
        """Whether it was adopted, or there is nothing any more."""
        try:
            return self.sync(timeout).outcome == "adopted"
        except FailedPreconditionError:
            # What was under way came in the moment after somebody looked.
            if self._worker.has_work:
                raise
            return True

    def _on_step(self, *_: object) -> None:
        self._steps += 1
        if self._steps % self.sync_every == 0:
            self.sync()

    def _load(self) -> None:
        for tensor in self._tensors:
            tensor.load()

    def _store(self) -> None:
        for tensor in self._tensors:
            tensor.store()
        if any(tensor.is_rounded for tensor in self._tensors):
            self._load()
            self._worker.rebase(self._buffers())

    def _buffers(self) -> list[Any]:
        return [tensor.buffer for tensor in self._tensors]

    def finish(self, timeout: Seconds = _FINISH_SECONDS) -> bool:
        """Pushes what is left, and takes over what comes of it; False where the time is over before that."""
        end = time.monotonic() + seconds(timeout)
        while self._worker.has_work or not self._worker.can_push:
            if time.monotonic() >= end:
                return False
            if not self._sync_what_is_left(1.0):
                time.sleep(_LOOK_SECONDS)
        return True

    def leave(self) -> None:
        """Others may go on with its chunks. Idempotent."""
        self._worker.leave()

    def __enter__(self) -> Self:
        if self._inner is not None:
            self._hook = self._inner.register_step_post_hook(self._on_step)
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        try:
            if error is None:
                self.finish()
        finally:
            self.leave()
