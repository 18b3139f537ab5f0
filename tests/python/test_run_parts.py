"""The parts of `square run` that need no process."""

import math
import queue
import sys
from pathlib import Path

import pytest
from commands import TRIANGLE, wait_until
from square import Scenario, plan
from square.errors import DataLossError
from square.run import admission, payload, protocol
from square.run.measurement import Measurement
from square.run.outcome import Totals, jain, mean, ratio
from square.run.processes import Gone, Said, Workers, local_command
from square.run.progress import Lines
from square.run.stillness import Stillness

SEAT = protocol.Seat(0, "alice", ("a", "b"), 1, 0, 5, 1.5)
MESSAGES = [
    protocol.Wire(("link set lo up",), ("qdisc add dev to1 root tbf",), {"to1": "b"}),
    protocol.Join("a", "127.0.0.1:1"),
    protocol.Join("a", "10.0.0.1:1", "10.1.0.1:0", "pem", paced=False),
    protocol.Clock(3),
    protocol.Seats((SEAT, SEAT), None, 3, 1.0),
    protocol.Seats((protocol.Seat(1, "t", ("a",), 0, None, 8, 1.0, "all_reduce"),), None, 3, 1.0),
    protocol.Prepare(1, 2),
    protocol.Begin(1, 12.5, 3.0),
    protocol.Verify(1),
]
EVENTS = [
    protocol.Isolated(),
    protocol.Wired(),
    protocol.Counted(1, (protocol.LinkCounters("b", 1 << 40, 3, 4),), 5),
    protocol.Joined("127.0.0.1:2", "0.1.0"),
    protocol.Clocked(3, 4.5),
    protocol.Ready(),
    protocol.Prepared(1),
    protocol.Progress(1, 1 << 40),
    protocol.Finished(1, 2, 3, 4.5),
    protocol.Digest(1, 2, 3, "ab"),
    protocol.Failed("UNAVAILABLE", 'a "quoted"\nline'),
]


@pytest.mark.parametrize("command", MESSAGES, ids=lambda message: type(message).__name__)
def test_commands_survive_the_pipe(command: protocol.Command) -> None:
    line = protocol.encode(command)
    assert line.count(b"\n") == 1
    assert protocol.decode_command(line) == command


@pytest.mark.parametrize("event", EVENTS, ids=lambda message: type(message).__name__)
def test_events_survive_the_pipe(event: protocol.Event) -> None:
    line = protocol.encode(event)
    assert line.count(b"\n") == 1
    assert protocol.decode_event(line) == event


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, 3_000_001])
def test_payload_is_reproducible_and_fills_everything(size: int) -> None:
    first, again, other = bytearray(size), bytearray(b"x" * size), bytearray(size)
    payload.generate(1, 0, first)
    payload.generate(1, 0, again)
    payload.generate(1, 1, other)
    assert first == again
    assert size == 0 or first != other
    nothing = bytearray(first)
    payload.overwrite(0, nothing)
    assert size < 16 or nothing != first
    # Every part of a megabyte is other than the one before it.
    parts = {bytes(first[begin : begin + (1 << 20)]) for begin in range(0, size, 1 << 20)}
    assert len(parts) == math.ceil(size / (1 << 20))


def test_payload_from_a_file_that_changed(tmp_path: Path) -> None:
    file = tmp_path / "payload"
    file.write_bytes(b"12345")
    buffer = bytearray(5)
    payload.read_file(file, buffer)
    assert buffer == b"12345"
    for size in (4, 6):
        with pytest.raises(DataLossError, match="changed its size"):
            payload.read_file(file, bytearray(size))


@pytest.fixture
def measurement() -> Measurement:
    scenario = Scenario.parse(TRIANGLE)
    made = plan(scenario)
    return Measurement(scenario, made, made)


MEMBERS = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


def test_a_collective_completes_with_its_last_member(measurement: Measurement) -> None:
    for number, (collective, rank) in enumerate(MEMBERS):
        assert not measurement.is_finished
        measurement.take_finish(collective, rank, 1.0 + number)
        measurement.take_digest(protocol.Digest(0, collective, rank, f"same {collective}"))
    assert measurement.is_finished
    assert measurement.is_compared
    assert measurement.destinations_done() == {0: 2, 1: 1}
    outcome = measurement.outcome()
    assert [c.measured_seconds for c in outcome.collectives] == [3.0, 5.0]
    assert outcome.collectives[0].measured_bps == pytest.approx(8 * 400_000 / 3.0)
    assert outcome.mean_seconds == 4.0


def test_other_bytes_at_a_destination_are_an_error(measurement: Measurement) -> None:
    for collective, rank in MEMBERS:
        measurement.take_finish(collective, rank, 1.0)
        different = (collective, rank) == (1, 1)
        measurement.take_digest(protocol.Digest(0, collective, rank, "bad" if different else "good"))
    with pytest.raises(DataLossError, match=r"collective 1 .tenant bob.*at a differ from those at b"):
        measurement.outcome()


def test_what_is_missing_is_named(measurement: Measurement) -> None:
    for collective, rank in MEMBERS[:-1]:
        measurement.take_finish(collective, rank, 1.0)
    assert measurement.missing() == "not finished: collective 1 at a"


def test_arithmetic() -> None:
    assert jain([1.0, 1.0, 1.0]) == 1.0
    assert jain([1.0, 0.0]) == 0.5
    assert jain([]) == 1.0
    assert math.isnan(ratio(1.0, 0.0))
    assert math.isnan(ratio(1.0, math.inf))
    assert mean([1.0, math.nan, 3.0]) == 2.0
    totals = Totals.of([(4.0, 2.0), (2.0, 1.0), (math.inf, 1.0), (math.nan, 1.0)])
    assert (totals.min_bps, totals.total_bps, totals.jain) == (2.0, 6.0, 1.0)


def test_memory_is_known_here() -> None:
    free = admission.free_memory_bytes()
    assert free is None or free > 0


def test_workers_say_what_went_wrong_and_are_gone() -> None:
    heard: queue.SimpleQueue[Said | Gone] = queue.SimpleQueue()
    workers = Workers(heard.put)
    workers.start("a", local_command())
    workers.send("a", protocol.Join("a", "127.0.0.1:1"))
    said = heard.get(timeout=20)
    assert isinstance(said, Said)
    assert isinstance(said.event, protocol.Failed)
    assert said.event.code == "UNAVAILABLE"
    assert "127.0.0.1:1" in said.event.message
    workers.close()
    gone = heard.get(timeout=5)
    assert isinstance(gone, Gone)
    assert (gone.node, gone.return_code) == ("a", 0)
    assert wait_until(lambda: not Path(f"/proc/{gone.process_id}").exists(), 1)


def test_lines_for_logs(capsys: pytest.CaptureFixture[str], measurement: Measurement) -> None:
    lines = Lines(sys.stderr)
    lines.begin("square", measurement.expectations(), measurement.total_bytes)
    lines.update(0.5, 1000, {0: 1, 1: 0})  # too soon after the last line
    assert capsys.readouterr().err.count("\n") == 1


def test_a_node_that_stands_still_is_named_once_and_again_when_it_goes_on() -> None:
    stillness = Stillness(["a", "a", "b"], 10.0)
    assert list(stillness.look(11.9)) == []
    assert list(stillness.note("b", 12.0)) == []
    assert list(stillness.look(12.5)) == ["node a has said nothing for 2 s: its process stands still"]
    assert list(stillness.look(13.0)) == []
    assert list(stillness.note("a", 13.5)) == ["node a goes on"]
    # Whose members are through says nothing any more.
    for _ in range(2):
        stillness.note_finished("a")
    assert list(stillness.look(14.5)) == ["node b has said nothing for 2 s: its process stands still"]
