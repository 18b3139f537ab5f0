"""A barrier that names who did not come. It goes through the store, so a missing rank breaks no group."""

import time

from square.torch.rendezvous import Rendezvous


def meet(meeting: Rendezvous, number: int, seconds: float, wait_all_ranks: bool) -> None:
    """The group's `number`th such barrier. Rank 0 decides, and the others hear from it.

    Raises RuntimeError naming the first missing rank, or all of them with `wait_all_ranks`.
    """
    key = f"monitored/{number}"
    deadline = time.monotonic() + seconds
    if meeting.rank > 0:
        meeting.count(f"{key}/{meeting.rank}", 1)
        # Rank 0 may give the last one its whole time.
        if not _arrives(meeting, f"{key}/verdict", deadline + seconds):
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
        if not _arrives(meeting, f"{key}/{rank}", deadline):
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
        meeting.put(f"{key}/why", "all came")
    meeting.count(f"{key}/verdict", 1)
    if error is not None:
        raise error


def _arrives(meeting: Rendezvous, key: str, deadline: float) -> bool:
    return meeting.poll(lambda: meeting.has(key), deadline)
