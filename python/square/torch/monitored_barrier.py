"""A barrier that names who did not come. It goes through the store, so a missing rank breaks no group."""

import time
from collections.abc import Callable

from square.torch.rendezvous import Rendezvous


def meet(
    meeting: Rendezvous, number: int, seconds: float, wait_all_ranks: bool, check: Callable[[], None]
) -> None:
    """The group's `number`th such barrier. Rank 0 decides, and the others hear from it.

    Raises RuntimeError naming the first missing rank, or all of them with `wait_all_ranks`, and what `check`
    raises once the group cannot be used any more.
    """
    key = f"monitored/{number}"
    deadline = time.monotonic() + seconds

    def arrives(key: str, deadline: float) -> bool:
        def is_there() -> bool:
            check()
            return meeting.has(key)

        return meeting.poll(is_there, deadline)

    check()
    if meeting.rank > 0:
        meeting.count(f"{key}/{meeting.rank}", 1)
        # Rank 0 may give the last one its whole time.
        if not arrives(f"{key}/verdict", deadline + seconds):
            raise RuntimeError(f"rank 0 has not answered in {2 * seconds:g} s")
        try:
            meeting.get(f"{key}/why")
        except RuntimeError as why:
            raise RuntimeError(
                f"Rank {meeting.rank} successfully reached monitoredBarrier, but received errors while "
                f"waiting for send/recv from rank 0: {why}"
            ) from None
        return
    missing: list[int] = []
    for rank in range(1, meeting.size):
        if not arrives(f"{key}/{rank}", deadline):
            missing.append(rank)
            if not wait_all_ranks:
                break
    error = None
    if missing:
        which = f"Rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
        milliseconds = round(seconds * 1000)
        # Words that Gloo uses too: programs look for them.
        error = RuntimeError(
            f"{which} failed to pass monitoredBarrier in {milliseconds} ms"
            if milliseconds > 0
            else f"Rank 0 timed out in monitoredBarrier after 0 ms; {which} had not come"
        )
        meeting.fail(f"{key}/why", error)
    else:
        # All have heard the verdict before.
        past = f"monitored/{number - 1}"
        meeting.remove(
            [f"{past}/why", f"{past}/verdict", *(f"{past}/{rank}" for rank in range(1, meeting.size))]
        )
        meeting.put(f"{key}/why", "all came")
    meeting.count(f"{key}/verdict", 1)
    if error is not None:
        raise error
