"""Flight records that are made up: what `square doctor --operations` says of them, and of other files."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import square
from commands import square as command
from square import flight_record
from square.doctor.operations import Operation, Record, collect, merge
from square.doctor.operations.records import Life
from square.errors import InvalidArgumentError, NotFoundError

NODES = ("a", "b", "c", "d")


def operation(
    call: int | None, name: str = "all_reduce", state: str = "completed", **more: object
) -> Operation:
    number = call or 0
    made = Operation(name, state, 4, called=float(number), call=call)
    if state in ("completed", "failed"):
        made = replace(made, completed=number + 0.5, outcome="OK" if state == "completed" else "FAILED")
    return replace(made, **more)  # type: ignore[arg-type]


def record(rank: int, *operations: Operation, **more: object) -> Record:
    calls = [one.call for one in operations if one.call is not None]
    made = Record("g", 1, rank, NODES, written=100.0, reason="asked", operations=operations)
    made = replace(made, last_called=max(calls, default=0), life=Life.RUNNING)
    return replace(made, **more)  # type: ignore[arg-type]


def said(*records: Record) -> list[str]:
    [group] = merge(records)
    return group.explanations


def healthy(rank: int) -> Record:
    return record(rank, operation(1), operation(2))


def test_ranks_that_agree_need_no_word() -> None:
    assert said(*map(healthy, range(4))) == []


def test_the_rank_that_is_behind_is_named_with_what_it_waits_in() -> None:
    ahead = [record(rank, operation(1), operation(2, state="scheduled")) for rank in range(3)]
    late = record(3, operation(1, state="started", waits_for="no word from the root"))
    assert said(*ahead, late) == [
        "rank 3 is behind: it has not called all_reduce (call 2), which ranks 0 to 2 have called; it waits "
        "in all_reduce (call 1): no word from the root"
    ]


def test_a_rank_that_has_called_nothing_yet() -> None:
    ahead = [record(rank, operation(1, "barrier", "scheduled")) for rank in (0, 1, 3)]
    assert said(*ahead, record(2)) == [
        "rank 2 is behind: it has not called barrier (call 1), which ranks 0, 1 and 3 have called; it has "
        "called nothing yet"
    ]


def test_a_rank_that_has_left() -> None:
    failed = [record(rank, operation(1), operation(2, state="failed")) for rank in range(3)]
    [line] = said(*failed, record(3, operation(1), reason="closed", life=Life.GONE))
    assert line.endswith("ranks 0 to 2 have called; it left the group after all_reduce (call 1)")


def test_a_rank_that_called_after_the_others_had_failed() -> None:
    failed = [record(rank, operation(1), operation(2, state="failed")) for rank in range(3)]
    late = record(3, operation(1), operation(None, state="failed", called=33.0))
    [line] = said(*failed, late)
    assert line.endswith("; it called all_reduce 31 s after rank 0")
    numbered = record(3, operation(1), operation(2, state="failed", called=33.0))
    assert said(*failed, numbered) == ["rank 3 called all_reduce (call 2) 31 s after ranks 0 to 2"]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            operation(2, "broadcast", "failed", peer=0),
            "rank 1 called broadcast of 4 bytes from rank 0, where",
        ),
        (
            operation(2, state="failed", size_bytes=8),
            "rank 1 called all_reduce of 8 bytes, where ranks 0, 2 and 3",
        ),
    ],
)
def test_calls_that_differ(other: Operation, words: str) -> None:
    right = [record(rank, operation(1), operation(2, state="failed")) for rank in (0, 2, 3)]
    [line] = said(*right, record(1, operation(1), other))
    assert line.startswith(f"call 2 of the group differs: {words}")


def test_parts_of_different_sizes_are_no_difference() -> None:
    sizes = [record(rank, operation(1, "all_gather", size_bytes=rank)) for rank in range(4)]
    assert said(*sizes) == []


def test_roots_that_differ_are_told_apart() -> None:
    calls = [record(rank, operation(1, "broadcast", "started", peer=rank // 2)) for rank in range(4)]
    assert said(*calls) == [
        "call 1 of the group differs: ranks 2 and 3 called broadcast of 4 bytes from rank 1, where ranks 0 "
        "and 1 called broadcast of 4 bytes from rank 0"
    ]


@pytest.mark.parametrize(
    ("life", "words"),
    [(Life.STOPPED, "is stopped"), (Life.GONE, "is gone"), (Life.ELSEWHERE, "has not written its record")],
)
def test_a_process_that_writes_nothing(life: Life, words: str) -> None:
    waiting = [record(rank, operation(1, state="started")) for rank in range(3)]
    blank = record(3, reason="created", life=life)
    [line] = said(*waiting, blank)
    assert line.startswith(f'rank 3 on node "d" {words}')
    assert line.endswith("; ranks 0 to 2 wait in all_reduce (call 1)")
    [line] = said(*waiting)
    assert line.startswith('rank 3 on node "d" has left no record')


def test_a_group_of_which_nothing_was_written() -> None:
    blank = [record(rank, reason="created", life=Life.GONE) for rank in range(2)]
    assert said(*blank) == [
        "no rank has written what it called since the group was made (rank 0 gone, rank 1 gone)"
    ]


def test_an_operation_that_all_have_called_says_what_is_waited_for() -> None:
    ranks = [record(rank, operation(1, state="started")) for rank in range(3)]
    waiting = record(3, operation(1, state="started", waits_for='nothing arrived from the source "a"'))
    assert said(*ranks, waiting) == [
        "all ranks have called all_reduce (call 1), and ranks 0 to 3 wait in it: rank 3 waits: nothing "
        'arrived from the source "a"'
    ]


def test_messages_are_matched_by_peer_tag_and_number() -> None:
    def message(name: str, peer: int, number: int, state: str = "completed") -> Operation:
        return operation(None, name, state, peer=peer, tag=5, message=number)

    receiver = record(1, message("receive", 0, 1), message("receive", 0, 2, "scheduled"))
    sender = record(0, message("send", 1, 1))
    lines = said(sender, receiver, record(2), record(3))
    assert lines == [
        "rank 0 is behind: it has not sent message 2 with tag 5, for which rank 1 waits in receive"
    ]


def test_the_newest_record_of_a_rank_counts_and_groups_stay_apart() -> None:
    old = record(0, operation(1, state="started"), written=1.0)
    groups = merge([old, *map(healthy, range(4)), replace(healthy(0), group="h", written=200.0)])
    assert [group.name for group in groups] == ["g", "h"]
    assert groups[0].explanations == []


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="SQUARE_FLIGHT_RECORD"):
        collect([tmp_path])
    wrong = tmp_path / "flight-x.json"
    for text in ("{", "[]", '{"format": "square.plan/1"}'):
        wrong.write_text(text)
        with pytest.raises(InvalidArgumentError, match=r"flight-x\.json"):
            collect([tmp_path])
    refused = command("doctor")
    assert refused.returncode == 2
    assert "--operations" in refused.stderr


ASKED = """\
import sys, time
import square
node = square.Node("solo")
group = square.Communicator(node, "g", "t", ["solo"], 0)
group.barrier()
print("ready", flush=True)
sys.stdin.readline()
"""


def test_a_living_process_is_asked_and_one_that_ends_leaves_its_record(tmp_path: Path) -> None:
    environment = {**os.environ, flight_record.VARIABLE: str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-P", "-c", ASKED],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        [blank] = collect([tmp_path], ask=False)
        assert (blank.reason, blank.last_called) == ("created", 0)
        [asked] = collect([tmp_path])
        assert (asked.reason, asked.last_completed, asked.life) == ("asked", 1, Life.RUNNING)
        process.stdin.write("\n")
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    [ended] = collect([tmp_path])
    assert (ended.reason, ended.life) == ("closed", Life.GONE)


def test_a_process_that_is_terminated_leaves_its_record(tmp_path: Path) -> None:
    environment = {**os.environ, flight_record.VARIABLE: str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-P", "-c", ASKED],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(timeout=60) == -signal.SIGTERM
    [ended] = collect([tmp_path])
    assert (ended.reason, ended.last_completed, ended.life) == ("terminated", 1, Life.GONE)


def test_a_program_that_has_a_handler_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(flight_record.VARIABLE, str(tmp_path))
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: heard.append(number))
    try:
        with square.Node("solo") as node, square.Communicator(node, "g", "t", ["solo"], 0):
            os.kill(os.getpid(), signal.SIGUSR2)
            [record_file] = tmp_path.glob(flight_record.PATTERN)
            assert json.loads(record_file.read_text())["process"]["signal"] is None
            assert collect([tmp_path])[0].reason == "created"
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert heard == [signal.SIGUSR2]


def test_nothing_is_written_where_it_is_off_or_the_folder_is_not_ours_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv(flight_record.VARIABLE, flight_record.OFF)
    assert flight_record.settings() is None
    monkeypatch.delenv(flight_record.VARIABLE)
    assert flight_record.settings() == (str(tmp_path / "square" / "flight"), False)
    (tmp_path / "square" / "flight").chmod(0o770)
    assert flight_record.settings() is None
