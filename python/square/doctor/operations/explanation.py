"""What keeps a group from going on, in one line each: the rank at fault is the subject."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from square.doctor.operations.records import Life, Operation, Record
from square.doctor.rules import words

if TYPE_CHECKING:
    from square.doctor.operations.merging import Group

# A rank that calls this much after the others is named; clocks of hosts may differ by less.
LATE_SECONDS = 1.0
# All members pass buffers of one size to these.
SAME_SIZE = {"all_reduce", "ring all_reduce", "compressed all_reduce", "broadcast", "reduce"}
ROOTED = {"broadcast", "reduce", "gather", "scatter"}


def explain(group: "Group") -> list[str]:
    """The first that applies: ranks that call different things, ranks that are behind, what all wait for."""
    if not group.known:
        lives = ", ".join(f"rank {rank} {record.life}" for rank, record in group.records.items())
        return [f"no rank has written what it called since the group was made ({lives})"]
    different = _different_calls(group)
    if different:
        return [different]
    return _behind(group) or _waiting(group) or _messages(group)


def ranks(numbers: Iterable[int]) -> str:
    """``rank 2``, ``ranks 0, 1 and 3``, ``ranks 0 to 7``."""
    listed = sorted(set(numbers))
    if len(listed) == 1:
        return f"rank {listed[0]}"
    if len(listed) > 2 and listed[-1] - listed[0] == len(listed) - 1:
        return f"ranks {listed[0]} to {listed[-1]}"
    more = len(listed) - words.MAX_NAMES
    if more > 0:
        return f"ranks {', '.join(map(str, listed[: words.MAX_NAMES]))} and {more} more"
    return f"ranks {', '.join(map(str, listed[:-1]))} and {listed[-1]}"


def has(numbers: Iterable[int]) -> str:
    return "has" if len(set(numbers)) == 1 else "have"


def what(operation: Operation) -> str:
    """``all_reduce of 4 bytes``, ``broadcast of 4 bytes from rank 1``."""
    text = operation.name
    if operation.size_bytes:
        text += f" of {words.size(operation.size_bytes)}"
    if operation.name in ROOTED and operation.peer is not None:
        way = "from" if operation.name in ("broadcast", "scatter") else "to"
        text += f" {way} rank {operation.peer}"
    return text


def called(operation: Operation) -> str:
    """``all_reduce (call 7)``."""
    return operation.name if operation.call is None else f"{operation.name} (call {operation.call})"


def _signature(operation: Operation) -> tuple[str, int | None, int | None]:
    return (
        operation.name,
        operation.peer if operation.name in ROOTED else None,
        operation.size_bytes if operation.name in SAME_SIZE else None,
    )


def _different_calls(group: "Group") -> str:
    for call, by_rank in group.calls.items():
        alike: dict[tuple[str, int | None, int | None], list[int]] = {}
        for rank, operation in by_rank.items():
            alike.setdefault(_signature(operation), []).append(rank)
        if len(alike) < 2:
            continue
        # The fewest are named first: it is they that went astray, most likely.
        sides = sorted(alike.values(), key=lambda side: (len(side), -side[0]))
        told = [f"{ranks(side)} called {what(by_rank[side[0]])}" for side in sides]
        return f"call {call} of the group differs: {told[0]}, where {' and '.join(told[1:])}"
    return ""


def _behind(group: "Group") -> list[str]:
    lines = []
    front = max(group.last_called.values(), default=0)
    for rank in range(len(group.nodes)):
        record = group.records.get(rank)
        own = group.last_called.get(rank)
        silent = record is None or own is None or _keeps_silent(record, front)
        if silent:
            lines += _silent(group, rank, record)
        elif own is not None and record is not None and own < front:
            lines.append(_late(group, rank, record, own + 1))
    return lines


def _keeps_silent(record: Record, front: int) -> bool:
    """Its process cannot act: stopped, or gone before it ended."""
    if record.life is Life.STOPPED:
        return True
    return record.life is Life.GONE and record.reason == "asked" and record.last_completed < front


def _silent(group: "Group", rank: int, record: Record | None) -> list[str]:
    others = {other: at for other, at in group.last_called.items() if other != rank}
    waiting = _unfinished(group, others)
    if record is None:
        state, process = "has left no record", "it is stopped, gone or has not failed yet"
    else:
        process = f'process {record.process.pid} on host "{record.process.host}"'
        state = {
            Life.STOPPED: "is stopped",
            Life.GONE: "is gone",
            Life.RUNNING: "runs and does not write its record",
            Life.ELSEWHERE: "has not written its record since it began",
        }[record.life]
    why = f'rank {rank} on node "{group.nodes[rank]}" {state} ({process})'
    if waiting is None:
        return [why]
    operation, who = waiting
    is_over = all(group.calls[operation.call or 0][rank].is_over for rank in who)
    verb = "failed" if is_over else "waits" if len(who) == 1 else "wait"
    return [f"{why}; {ranks(who)} {verb} in {called(operation)}"]


def _unfinished(group: "Group", among: dict[int, int]) -> tuple[Operation, list[int]] | None:
    """The first call that some of these have not completed, and which have not."""
    for by_rank in group.calls.values():
        who = [rank for rank, one in by_rank.items() if rank in among and one.state != "completed"]
        if who:
            return by_rank[who[0]], who
    return None


def _late(group: "Group", rank: int, record: Record, missing: int) -> str:
    ahead = sorted(other for other, at in group.last_called.items() if at >= missing)
    by_rank = group.calls.get(missing, {})
    example = next((by_rank[other] for other in ahead if other in by_rank), None)
    name = called(example) if example else f"call {missing}"
    text = f"rank {rank} is behind: it has not called {name}, which {ranks(ahead)} {has(ahead)} called"
    open_ones = [one for one in record.operations if not one.is_over]
    own = [one for one in record.operations if one.call == missing - 1]
    next_one = [one for one in record.operations if one.call is None and not one.is_message]
    if open_ones:
        one = open_ones[0]
        text += f"; it waits in {called(one)}" + (f": {one.waits_for}" if one.waits_for else "")
    elif next_one and example and next_one[-1].called > example.called:
        late = words.time(next_one[-1].called - example.called)
        text += f"; it called {next_one[-1].name} {late} after rank {ahead[0]}"
    elif own and record.reason == "closed":
        text += f"; it left the group after {called(own[-1])}"
    elif own and own[-1].completed is not None:
        ago = words.time(max(0.0, record.written - own[-1].completed))
        text += f"; it completed {called(own[-1])} {ago} before it wrote its record"
    else:
        text += "; it has called nothing yet" if missing == 1 else ""
    return text


def _waiting(group: "Group") -> list[str]:
    """All have called it, and it is not over."""
    unfinished = _unfinished(group, group.last_called)
    if unfinished is None:
        return []
    operation, who = unfinished
    by_rank = group.calls[operation.call or 0]
    first = min(one.called for one in by_rank.values())
    late = [rank for rank, one in by_rank.items() if one.called - first > LATE_SECONDS]
    if late:
        by = words.time(min(by_rank[rank].called for rank in late) - first)
        early = sorted(set(by_rank) - set(late))
        return [f"{ranks(late)} called {called(operation)} {by} after {ranks(early)}"]
    run = [rank for rank in who if not by_rank[rank].is_over]
    if not run:
        cause = min((by_rank[rank] for rank in who), key=lambda one: one.completed or 0.0)
        return [f"{called(operation)} failed on {ranks(who)}: {cause.outcome}"]
    texts = [f"rank {rank} waits: {by_rank[rank].waits_for}" for rank in run if by_rank[rank].waits_for]
    told = "; ".join(texts[: words.MAX_NAMES]) or "no node says what for"
    return [f"all ranks have called {called(operation)}, and {ranks(run)} wait in it: {told}"]


def _messages(group: "Group") -> list[str]:
    lines = []
    for rank, record in group.known.items():
        waiting = [one for one in record.operations if one.is_message and one.state != "completed"]
        lines += [_message(group, rank, one) for one in waiting[:1]]
    return lines


def _message(group: "Group", rank: int, one: Operation) -> str:
    number = f"message {one.message} with tag {one.tag}"
    if one.peer is None:
        return f"rank {rank} waits for a message from any rank with tag {one.tag}, and none has come"
    wanted, verb = ("receive", "received") if one.name == "send" else ("send", "sent")
    there = group.known.get(one.peer)
    is_there: Callable[[Operation], bool] = lambda other: (  # noqa: E731
        other.name == wanted and other.peer == rank and other.tag == one.tag and other.message == one.message
    )
    way = "to" if one.name == "send" else "from"
    text = f"rank {rank} waits in {one.name} {way} rank {one.peer} ({number})"
    if there is None:
        return f"{text}; rank {one.peer} has left no record"
    if any(is_there(other) for other in there.operations):
        return f"{text}, which rank {one.peer} has called: {one.waits_for or one.outcome or 'it moves'}"
    return f"rank {one.peer} is behind: it has not {verb} {number}, for which rank {rank} waits in {one.name}"
