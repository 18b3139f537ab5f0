"""Reduces and all-reduces in `square run`: what members add, what is admitted, what is verified."""

import json
import math
import struct
from hashlib import sha256
from pathlib import Path

import pytest
import square as library
from commands import TRIANGLE, square
from square.errors import DataLossError, InvalidArgumentError, UnimplementedError
from square.run import admission, operations, sums
from square.run.measurement import Measurement
from square.run.protocol import Digest


def scenario(op: str, **more: object) -> library.Scenario:
    topology = library.Topology.full_mesh(["a", "b", "c"], capacity_bps=40e6)
    root = {} if op == "all_reduce" else {"root": "b"}
    fields: dict[str, object] = {"size_bytes": 4_000, **root, **more}
    return library.Scenario(topology, collectives=[library.Collective("t", op=op, **fields)])


@pytest.mark.parametrize("size", [0, 4, 4_000, (1 << 20) - 4, 1 << 20, 2_500_000])
def test_the_sum_is_what_adding_gives(size: int, seed: int) -> None:
    inputs = []
    for rank in range(3):
        buffer = bytearray(size)
        sums.generate(seed, 5, rank, buffer)
        inputs.append(buffer)
        values = memoryview(buffer).cast("f")
        assert all(-128 <= value <= 127 for value in values[:1000])
    assert size < 1000 or len({bytes(buffer) for buffer in inputs}) == 3
    numbers = [memoryview(buffer).cast("f").tolist() for buffer in inputs]
    total = struct.pack(f"{size // 4}f", *map(math.fsum, zip(*numbers, strict=True)))
    assert sums.digest_of_sum(seed, 5, 3, size) == sha256(total).hexdigest()
    # Every megabyte is another one: a block in a wrong place would be noticed.
    parts = {total[begin : begin + (1 << 20)] for begin in range(0, size, 1 << 20)}
    assert len(parts) == math.ceil(size / (1 << 20))


def test_who_gives_and_who_gets() -> None:
    def of(op: str, root: int | None) -> list[tuple[bool, bool]]:
        return [(operations.gives(op, rank, root), operations.gets(op, rank, root)) for rank in range(3)]

    assert of("broadcast", 1) == [(False, True), (True, False), (False, True)]
    assert of("reduce", 1) == [(True, False), (True, True), (True, False)]
    assert of("all_reduce", None) == [(True, True)] * 3
    for op, root in (("broadcast", 1), ("reduce", 1), ("all_reduce", None)):
        assert operations.results(op, 3) == sum(gets for _, gets in of(op, root))
    assert [operations.buffers(op, 3) for op in operations.OPERATIONS] == [3, 4, 6]


@pytest.mark.parametrize(("op", "shown"), [("reduce", ["b"]), ("all_reduce", ["a", "b", "c"])])
def test_a_wrong_sum_is_an_error(op: str, shown: list[str]) -> None:
    made = scenario(op)
    plan = library.plan(made, policy="exact")
    expected = sums.digest_of_sum(3, 0, 3, 4_000)
    for wrong in (None, *shown):
        measurement = Measurement(made, plan, plan, seed=3)
        assert measurement.total_bytes == len(shown) * 4_000
        for rank in range(3):
            measurement.take_finish(0, rank, 1.0 + rank)
        assert measurement.destinations_done() == {0: len(shown)}
        for name in shown:
            assert not measurement.is_compared
            measurement.take_digest(Digest(0, 0, "abc".index(name), "bad" if name == wrong else expected))
        assert measurement.is_compared
        if wrong is None:
            (outcome,) = measurement.outcome().collectives
            assert (outcome.op, outcome.destinations, outcome.sha256) == (op, len(shown), expected)
            assert outcome.measured_seconds == 3.0
        else:
            with pytest.raises(DataLossError, match=f"at {wrong} differ from the sum of what the members"):
                measurement.outcome()


def test_what_cannot_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UnimplementedError, match=r"collective 0 .all_gather, tenant t.*runs broadcast.* only"
    ):
        admission.check(scenario("all_gather", root=None), ["exact"])


def test_sums_of_parts_of_numbers_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="4002 bytes are not a whole number of float32"):
        admission.check(scenario("all_reduce", size_bytes=4_002), ["exact"])


def test_rings_run_under_one_policy_at_a_time() -> None:
    with pytest.raises(UnimplementedError, match="collective 0 is a ring, and those run under one policy"):
        admission.check(scenario("all_reduce", algorithm="ring"), ["exact", "square"])


def test_a_sum_takes_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="--input is for broadcasts"):
        admission.check(scenario("reduce"), ["exact"], tmp_path)


@pytest.mark.parametrize("op", ["reduce", "all_reduce"])
def test_a_sum_is_run_and_verified(op: str, tmp_path: Path) -> None:
    head, _, broadcast = TRIANGLE.rpartition("[[collective]]")
    text = head.replace('op = "broadcast"', f'op = "{op}"') + "[[collective]]" + broadcast
    file = tmp_path / "adds.toml"
    file.write_text(text if op == "reduce" else text.replace('root = "a"\n', ""), encoding="utf-8")
    result = square("run", file, "--policy", "exact", "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    for policy in document["runs"]:
        adds, sends = policy["collectives"]
        assert (adds["op"], adds["root"]) == (op, "a" if op == "reduce" else None)
        assert adds["verified_destinations"] == (1 if op == "reduce" else 3)
        assert adds["sha256"] == sums.digest_of_sum(1, 0, 3, 400_000)
        assert (sends["op"], sends["verified_destinations"]) == ("broadcast", 1)
    result = square("run", file, "--policy", "exact")
    assert result.returncode == 0, result.stderr
    assert op in result.stdout


@pytest.mark.parametrize("policy", ["square", "exact"])
def test_a_ring_is_run_beside_a_broadcast(policy: str, tmp_path: Path) -> None:
    text = TRIANGLE.replace('op = "broadcast"\nroot = "a"', 'op = "all_reduce"\nalgorithm = "ring"', 1)
    file = tmp_path / "ring.toml"
    file.write_text(text, encoding="utf-8")
    result = square("run", file, "--policy", policy, "--json")
    assert result.returncode == 0, result.stderr
    (run,) = json.loads(result.stdout)["runs"]
    ring, sends = run["collectives"]
    assert (ring["op"], ring["verified_destinations"]) == ("all_reduce", 3)
    assert ring["sha256"] == sums.digest_of_sum(1, 0, 3, 400_000)
    assert ring["planned_completion_seconds"] > 0
    assert (sends["op"], sends["verified_destinations"]) == ("broadcast", 1)
