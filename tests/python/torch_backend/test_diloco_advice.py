"""How many inner steps the planner's rates ask for."""

import math
from pathlib import Path

import pytest
import square
import torch
from square.diloco import DiLoCo, Links, advise
from square.diloco.advice import bytes_of_element, plan_fragments

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def mesh(capacity_bps: float | None) -> square.Topology:
    return square.Topology.full_mesh(["a", "b", "c", "d"], capacity_bps)


def test_inner_steps_keep_the_loop_running_for_as_much_as_asked() -> None:
    # An all-reduce of 4 over a mesh of equal links: 3 links of 10 Mbit/s, 2 x 3/4 of the buffer each way.
    one = advise(mesh(10e6), 1_000_000, 0.1, compression="none")
    assert one.rate_bps == pytest.approx(20e6, rel=1e-6)
    assert one.exchange_seconds == pytest.approx(32e6 / 20e6, rel=1e-6)
    assert one.sync_every == math.ceil(9 * 1.6 / 0.1)
    assert one.utilization >= 0.9
    assert one.sync_every * 0.1 / (one.sync_every * 0.1 + one.waited_seconds) == one.utilization
    half = advise(mesh(10e6), 1_000_000, 0.1)
    assert half.sync_every == one.sync_every / 2
    # Behind four inner steps each of two fragments needs 0.4 of its 0.8 s more.
    late = advise(mesh(10e6), 1_000_000, 0.1, compression="none", fragments=2, fragment_sync_delay=4)
    assert late.waited_seconds == pytest.approx(0.8, rel=1e-6)
    hidden = advise(mesh(10e6), 1_000_000, 0.1, compression="none", fragments=2, fragment_sync_delay=9)
    assert (hidden.sync_every, hidden.utilization) == (10, 1.0)
    assert advise(mesh(None), 1_000_000, 0.1).sync_every == 1


def test_other_tenants_have_their_shares() -> None:
    alone = advise(mesh(10e6), 1_000_000, 0.1)
    crowd = square.Scenario(mesh(10e6), collectives=[square.Collective("other", "all_reduce")])
    beside = advise(crowd, 1_000_000, 0.1)
    assert beside.rate_bps == pytest.approx(alone.rate_bps / 2, rel=1e-6)
    assert len(crowd.collectives) == 1
    assert advise(EXAMPLES / "exact.toml", 1_000_000, 0.1).rate_bps > 0


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"utilization": 1.0}, "between 0 and 1"),
        ({"step_seconds": 0.0}, "above 0"),
        ({"parameters": 0}, "at least 1 parameter"),
        ({"compression": "zip"}, "none of none, bf16"),
    ],
)
def test_what_cannot_be_is_refused(changed: dict[str, object], text: str) -> None:
    given = {"parameters": 10, "step_seconds": 0.1, **changed}
    with pytest.raises(ValueError, match=text):
        advise(mesh(10e6), **given)


def names(parts: list[list[tuple[str, torch.nn.Parameter]]]) -> list[str]:
    return ["".join(name for name, _ in part) for part in parts]


def test_as_many_fragments_as_have_time_large_and_small_in_turns() -> None:
    sizes = {"a": 40_000, "b": 30_000, "c": 20_000, "d": 10_000}
    named = [(name, torch.nn.Parameter(torch.zeros(size))) for name, size in sizes.items()]
    # 20 Mbit/s: 0.16 s for all in float32, of which 0.064 for the largest.
    for step, count, delay in [(0.01, 1, 16), (0.02, 1, 8), (0.033, 4, 2), (0.1, 4, 1)]:
        parts, steps = plan_fragments(named, Links(mesh(10e6), step), 8, "none")
        assert (len(parts), steps) == (count, min(delay, 7))
    assert names(parts) == ["a", "d", "b", "c"]
    # A round of any size takes some time.
    far = square.Topology.full_mesh(["a", "b", "c", "d"], 10e6, latency=0.05)
    parts, steps = plan_fragments(named, Links(far, 0.1), 8, "none")
    assert (names(parts), steps) == (["bcd", "a"], 4)


def test_the_plan_is_what_is_exchanged() -> None:
    model = torch.nn.Sequential(*[torch.nn.Linear(100, 100) for _ in range(4)])
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    links = Links(mesh(10e6), 0.1)
    diloco = DiLoCo(model, inner, sync_every=8, fragments="plan", links=links)
    assert len(diloco._fragments) == 8
    assert diloco._delay == 1
    assert (
        DiLoCo(model, inner, sync_every=8, fragments="plan", links=links, fragment_sync_delay=0)._delay == 0
    )
    for options in ({"fragments": "plan"}, {"links": links}):
        with pytest.raises(ValueError, match="goes by `links`"):
            DiLoCo(model, inner, **options)


def test_bytes_of_compressed_elements() -> None:
    assert bytes_of_element("int8:feedback") == 1 + 4 / 256
    assert bytes_of_element("top-k:0.01") == pytest.approx(0.08)
