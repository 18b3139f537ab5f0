"""`square run` on three nodes: figures, payloads, policies."""

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest
from commands import TRIANGLE, assert_clear_error, square


@pytest.fixture
def triangle(tmp_path: Path) -> Path:
    file = tmp_path / "triangle.toml"
    file.write_text(TRIANGLE, encoding="utf-8")
    return file


def run(*arguments: str | Path) -> dict[str, Any]:
    result = square("run", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_one_policy(triangle: Path, tmp_path: Path) -> None:
    output = tmp_path / "run.json"
    document = run(triangle, "--output", output)
    assert document == json.loads(output.read_text(encoding="utf-8"))
    assert document["format"] == "square.run/1"
    assert document["nodes"] == 3
    [policy] = document["runs"]
    assert policy["policy"] == "exact"
    alice, bob = policy["collectives"]
    assert (alice["tenant"], alice["weight"], alice["bytes"]) == ("alice", 2.0, 400_000)
    assert alice["members"] == ["a", "b", "c"]
    assert set(alice["finished_seconds"]) == {"a", "b", "c"}
    assert bob["measured_completion_seconds"] == max(bob["finished_seconds"].values())
    # Bytes over time; a start takes a moment, and more than the capacity cannot be.
    for collective in (alice, bob):
        seconds = collective["measured_completion_seconds"]
        assert collective["measured_rate_mbps"] == pytest.approx(8e-6 * collective["bytes"] / seconds)
        assert collective["planned_completion_seconds"] > 0
    assert document["verified"] == {"hash": "sha256", "bytes": 1_000_000, "destinations": 3}


def test_compare_runs_the_same_under_each_policy(triangle: Path) -> None:
    document = run(triangle, "--compare", "square,shortest-path,mcf", "--seed", "7")
    assert [policy["policy"] for policy in document["runs"]] == ["square", "shortest-path", "mcf"]
    assert len({policy["epoch"] for policy in document["runs"]}) == 3
    hashes = {tuple(c["sha256"] for c in policy["collectives"]) for policy in document["runs"]}
    assert len(hashes) == 1
    comparison = document["comparison"]
    assert comparison["policy"] == "square"
    square_, shortest, _ = document["runs"]
    gain = comparison["baselines"][0]["gains"][0]
    completions = [p["collectives"][0]["measured_completion_seconds"] for p in (shortest, square_)]
    assert gain == pytest.approx(completions[0] / completions[1])
    # Along the thin link of 4 Mbit/s instead of the wide ones.
    assert gain > 2
    assert document["verified"]["destinations"] == 9


def test_payload_from_a_file(triangle: Path, tmp_path: Path, seed: int) -> None:
    payload = random.Random(seed).randbytes(123_457)
    file = tmp_path / "payload.bin"
    file.write_bytes(payload)
    document = run(triangle, "--input", file)
    assert document["payload"] == {"input": str(file), "seed": None}
    for collective in document["runs"][0]["collectives"]:
        assert collective["bytes"] == len(payload)
        assert collective["sha256"] == hashlib.sha256(payload).hexdigest()
        planned = 8e-6 * len(payload) / collective["planned_rate_mbps"]
        assert collective["planned_completion_seconds"] == pytest.approx(planned)


def test_payload_of_one_byte_repeated_is_noticed_too(triangle: Path, tmp_path: Path) -> None:
    # Buffers begin with other bytes: a run that delivered nothing would not pass.
    file = tmp_path / "zeros.bin"
    file.write_bytes(bytes(50_000))
    document = run(triangle, "--input", file)
    assert document["runs"][0]["collectives"][0]["sha256"] == hashlib.sha256(bytes(50_000)).hexdigest()


def test_payload_of_size_zero(triangle: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    document = run(triangle, "--input", empty)
    assert document["verified"]["bytes"] == 0
    for collective in document["runs"][0]["collectives"]:
        assert collective["measured_rate_mbps"] is None
        assert collective["ratio"] is None
        assert collective["measured_completion_seconds"] < 5


def test_generated_payload_depends_on_the_seed_only(triangle: Path) -> None:
    def hashes(seed: int) -> list[str]:
        document = run(triangle, "--seed", str(seed), "--scale-bytes", "0.1")
        return [collective["sha256"] for collective in document["runs"][0]["collectives"]]

    first = hashes(1)
    assert hashes(1) == first
    assert not set(first) & set(hashes(2))
    assert len(set(first)) == 2


def test_tables_and_progress(triangle: Path) -> None:
    result = square("run", triangle, "--compare", "square,mcf")
    assert result.returncode == 0, result.stderr
    for fragment in ("Policy square", "Policy mcf", "ratio", "Jain's index", "gain over", "total Mbit/s"):
        assert fragment in result.stdout
    assert "all 2000000 bytes at 6 destinations verified (sha256)" in result.stdout
    assert "starting 3 nodes" in result.stderr
    assert "policy mcf: 2 collectives, planned to take" in result.stderr


def test_exact_keeps_what_the_scenario_demands(tmp_path: Path) -> None:
    file = tmp_path / "cheap.toml"
    policy = '[policy]\nname = "exact"\nobjective = "cost"\navoid_links = [["a", "c"]]\n'
    demand = "required_mbps = 8\nmax_latency_ms = 50\nbytes = "
    file.write_text(policy + TRIANGLE.replace("bytes = ", demand), encoding="utf-8")
    (outcome,) = run(file, "--scale-bytes", "0.5")["runs"]
    assert outcome["policy"] == "exact"
    for collective, size in zip(outcome["collectives"], (200_000, 100_000), strict=True):
        assert collective["bytes"] == size
        assert collective["planned_rate_mbps"] == pytest.approx(8, rel=1e-5)


@pytest.mark.parametrize("op", ["all_gather", "reduce_scatter"])
def test_what_exact_plans_and_nobody_runs_is_refused(op: str, tmp_path: Path) -> None:
    file = tmp_path / "gathers.toml"
    head, _, _ = TRIANGLE.rpartition("[[collective]]")
    file.write_text(head.replace('op = "broadcast"\nroot = "a"', f'op = "{op}"'), encoding="utf-8")
    assert square("plan", file, "--policy", "exact", "--json").returncode == 0
    result = square("run", file, "--policy", "exact")
    assert_clear_error(result, f"collective 0 ({op}, tenant alice)", "`square run` runs broadcast")


def test_quiet(triangle: Path) -> None:
    result = square("run", triangle, "--quiet", "--json")
    assert result.returncode == 0
    assert result.stderr == ""


def test_it_runs_from_anywhere(triangle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A folder with modules of the same names as ours and the standard library's.
    for name in ("square", "json", "queue"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run(triangle.name)


def test_a_collective_of_one_member(tmp_path: Path) -> None:
    file = tmp_path / "alone.toml"
    file.write_text(TRIANGLE.replace('["b", "a"]', '["b"]'), encoding="utf-8")
    document = run(file)
    alone = document["runs"][0]["collectives"][1]
    assert alone["planned_rate_mbps"] is None
    assert alone["verified_destinations"] == 0
    assert alone["measured_completion_seconds"] < 5


def test_a_node_that_only_relays(tmp_path: Path) -> None:
    file = tmp_path / "relay.toml"
    file.write_text(
        """
[overlay]
capacity_mbps = 40
[[overlay.link]]
from = "a"
to = "relay"
[[overlay.link]]
from = "relay"
to = "b"
[[collective]]
tenant = "t"
op = "broadcast"
root = "a"
members = ["a", "b"]
bytes = 300_000
""",
        encoding="utf-8",
    )
    document = run(file)
    assert document["nodes"] == 3
    assert document["runs"][0]["collectives"][0]["verified_destinations"] == 1
