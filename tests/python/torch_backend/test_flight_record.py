"""Hangs that are staged, and what `square doctor --operations` says of them; ranges of the profiler."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ranks
import torch
from square.cli.main import main
from torch import distributed as dist

SIZE = 3
GUILTY = 1
CALLS_BEFORE = 3
# A hang lasts until it has been looked at.
HANG_SECONDS = 60.0
EVERY_NODE = [{"SQUARE_NODE": f"site{rank}"} for rank in range(SIZE)]


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} has not come"
        time.sleep(0.02)


def doctor(folder: Path) -> Any:
    """What the command says, as users run it."""
    said = subprocess.run(
        [sys.executable, "-P", "-m", "square", "doctor", "--operations", str(folder), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert said.returncode == 1, said.stdout + said.stderr
    return json.loads(said.stdout)


def call_in_hang(folder: Path, rank: int, guilty: Callable[[Any], None]) -> None:
    """All but one call all_reduce, which cannot end; rank 0 looks at it and ends the others."""
    tensor = torch.ones(1)
    for _ in range(CALLS_BEFORE):
        dist.all_reduce(tensor)
    (folder / f"pid-{rank}").write_text(str(os.getpid()))
    if rank == GUILTY:
        guilty(tensor)
        wait_for(folder / "end")
    else:
        work = dist.all_reduce(tensor, async_op=True)
        if rank == 0:
            for other in range(1, SIZE):
                wait_for(folder / f"pid-{other}")
            time.sleep(0.3)
            (folder / "said").write_text(json.dumps(doctor(folder / "records")))
            # A process that has stopped itself cannot go on by itself.
            os.kill(int((folder / f"pid-{GUILTY}").read_text()), signal.SIGCONT)
            (folder / "end").touch()
        wait_for(folder / "end")
        work.cancel()
    dist.group.WORLD.abort()


def does_not_call(rank: int, size: int, folder: str) -> None:
    call_in_hang(Path(folder), rank, lambda tensor: None)


def is_stopped(rank: int, size: int, folder: str) -> None:
    call_in_hang(Path(folder), rank, lambda tensor: os.kill(os.getpid(), signal.SIGSTOP))


def calls_another(rank: int, size: int, folder: str) -> None:
    tensor = torch.ones(1)
    for _ in range(CALLS_BEFORE):
        dist.all_reduce(tensor)
    with pytest.raises(dist.DistBackendError, match="members must call the same"):
        dist.broadcast(tensor, 0) if rank == GUILTY else dist.all_reduce(tensor)
    Path(folder, f"failed-{rank}").touch()
    if rank == 0:
        for other in range(size):
            wait_for(Path(folder, f"failed-{other}"))
        Path(folder, "said").write_text(json.dumps(doctor(Path(folder, "records"))))


def said_of(function: Callable[..., None], folder: Path, environments: list[dict[str, str]]) -> Any:
    named = {"SQUARE_FLIGHT_RECORD": str(folder / "records")}
    ranks.run(function, SIZE, str(folder), environment=named, environments=environments)
    [group] = json.loads((folder / "said").read_text())["groups"]
    assert group["size"] == SIZE
    assert len(group["explanations"]) == 1, group["explanations"]
    return group


@pytest.mark.parametrize("environments", [EVERY_NODE, [{}] * SIZE], ids=["a node each", "one node"])
def test_a_rank_that_does_not_call_is_named(tmp_path: Path, environments: list[dict[str, str]]) -> None:
    group = said_of(does_not_call, tmp_path, environments)
    assert group["explanations"][0].startswith(
        "rank 1 is behind: it has not called all_reduce (call 4), which ranks 0 and 2 have called; "
        "it completed all_reduce (call 3) "
    )
    last = group["calls"][-1]
    assert last["collective_seq_id"] == CALLS_BEFORE + 1
    assert sorted(last["ranks"]) == ["0", "2"]
    waits_for = [one["waits_for"] for one in last["ranks"].values()]
    words = (
        '"site1"; have they called it?' if environments is EVERY_NODE else "local ranks called the operation"
    )
    assert any(words in text for text in waits_for), waits_for


def test_a_rank_that_is_stopped_is_named(tmp_path: Path) -> None:
    group = said_of(is_stopped, tmp_path, EVERY_NODE)
    pid = (tmp_path / f"pid-{GUILTY}").read_text()
    assert group["explanations"][0].startswith(f'rank 1 on node "site1" is stopped (process {pid} on host ')
    assert group["explanations"][0].endswith("; ranks 0 and 2 wait in all_reduce (call 4)")
    assert [one["process"] for one in group["ranks"]] == ["running", "stopped", "running"]


def test_a_rank_that_calls_another_operation_is_named(tmp_path: Path) -> None:
    group = said_of(calls_another, tmp_path, EVERY_NODE)
    assert group["explanations"] == [
        "call 4 of the group differs: rank 1 called broadcast of 4 bytes from rank 0, where ranks 0 and 2 "
        "called all_reduce of 4 bytes"
    ]


def fails_alone(rank: int, size: int) -> None:
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(torch.ones(1)) if rank == 0 else dist.barrier()


def test_the_first_error_is_written_without_being_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SQUARE_FLIGHT_RECORD", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    ranks.run(fails_alone, 2)
    folder = tmp_path / "square" / "flight"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(list(folder.glob("flight-*.json"))) == 2
    assert main(["doctor", "--operations"]) == 1
    said = capsys.readouterr().out
    assert (
        "call 1 of the group differs: rank 1 called barrier, where rank 0 called all_reduce of 4 bytes"
        in said
    )


def profiled(rank: int, size: int) -> list[list[Any]]:
    tensor = torch.ones(1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        dist.all_reduce(tensor)
        if rank == 1:
            time.sleep(0.3)
        work = dist.broadcast(tensor, 1, async_op=True)
        torch.ones(8).sum()
        work.wait()
        # The range ends on the thread of callbacks.
        time.sleep(0.2)
    dist.barrier()
    ranges = [one for one in profile.events() if one.name.startswith("square:")]
    return [[one.name, one.time_range.elapsed_us() / 1e6] for one in ranges]


def recorded(rank: int, size: int) -> None:
    dist.all_reduce(torch.ones(2))
    if rank == 0:
        dist.send(torch.ones(3), 1, tag=7)
    else:
        dist.recv(torch.empty(3), 0, tag=7)
    record = dist.group.WORLD.flight_record()
    assert record["format"] == "square.flight_record/1"
    assert record["rank"] == rank
    assert record["last_completed_collective"] == 1
    reduced, message = record["operations"]
    assert reduced["operation"] == "all_reduce"
    assert reduced["size_bytes"] == 8
    assert reduced["time_created_ns"] <= reduced["time_planned_ns"] <= reduced["time_completed_ns"]
    assert abs(reduced["time_completed_ns"] / 1e9 - time.time()) < 60
    assert message["operation"] == ("send" if rank == 0 else "receive")
    assert (message["peer"], message["tag"], message["p2p_seq_id"]) == (1 - rank, 7, 1)
    dist.barrier()


def seen(rank: int, size: int) -> list[list[Any]]:
    recorded(rank, size)
    return profiled(rank, size)


def test_a_group_says_what_it_called_and_the_profiler_sees_ranges() -> None:
    for rank, ranges in enumerate(ranks.run(seen, 2)):
        assert [name for name, _ in ranges] == ["square:all_reduce", "square:broadcast"], ranges
        seconds = ranges[1][1]
        assert seconds > 0.25 if rank == 0 else seconds < 0.25, ranges
