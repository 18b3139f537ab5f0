"""square.diloco against the algorithm in one process, and what befalls its members."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import ranks
import square
import torch
from diloco_reference import Model, inner_of, run, tokens, train
from square.diloco import DiLoCo, DiLoCoOptimizer, Nesterov
from square.diloco import rounds as rounds_of_diloco
from square.diloco.fragments import split
from torch.distributed import checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

REPOSITORY = Path(__file__).resolve().parents[3]
EVERY = 4
ROUNDS = 20
LIMIT = timedelta(seconds=30)
CLOSE = 2e-5  # of float32 after so many steps, added in another order


def train_with(diloco: DiLoCo, model: Any, steps: int, member: int, first: int = 0) -> None:
    for step in range(first, first + steps):
        diloco.consumed(tokens(member))
        train(model, diloco.inner, step, member)


def parts_of(model: Any, fragments: int) -> list[list[str]]:
    return [[name for name, _ in part] for part in split(list(model.named_parameters()), fragments)]


def distance(model: Any, expected: dict[str, Any]) -> float:
    """The largest, of any element."""
    found = [(p.full_tensor() if hasattr(p, "full_tensor") else p) for p in model.parameters()]
    pairs = zip(found, expected.values(), strict=True)
    return max(float((one.detach() - other.detach()).abs().max()) for one, other in pairs)


def digest(model: Any) -> list[float]:
    return [float(p.detach().double().sum()) for p in model.parameters()]


def be_compared(rank: int, size: int, fragments: int, delay: int, alpha: float) -> Any:
    model = Model()
    options = {"fragments": fragments, "fragment_sync_delay": delay, "fragment_update_alpha": alpha}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * rank)  # everybody starts as rank 0
    with DiLoCo(model, inner_of(model), sync_every=EVERY, compression="none", **options) as diloco:
        train_with(diloco, model, ROUNDS * EVERY, rank)
    members, _ = run(size, ROUNDS * EVERY, EVERY, parts_of(model, fragments), delay, alpha)
    own = [one.members for one in diloco.history]
    return [distance(model, members[rank]), len(own), sum(own), digest(model), diloco.tokens]


# The plainest, and all at once; one by one in long runs.
@pytest.mark.parametrize(
    ("fragments", "delay", "alpha"),
    [
        (1, 0, 0.0),
        pytest.param(3, 0, 0.0, marks=pytest.mark.long),
        pytest.param(2, 1, 0.5, marks=pytest.mark.long),
        (4, 3, 0.25),
    ],
)
def test_it_is_the_reference_for_twenty_outer_steps(fragments: int, delay: int, alpha: float) -> None:
    results = ranks.run(be_compared, 4, fragments, delay, alpha)
    for far, rounds, members, said, counted in results:
        assert far < CLOSE
        assert rounds == ROUNDS * fragments
        assert members == 4 * rounds
        if fragments == 1:
            assert said == results[0][3]  # the same bits everywhere
            assert counted == ROUNDS * EVERY * sum(tokens(member) for member in range(4))


def be_sharded(rank: int, size: int, folder: str) -> Any:
    """Two sites of two processes each: FSDP2 inside, DiLoCo between."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("site", "shard"))
    site = mesh.get_local_rank("site")
    model = Model()
    for part in (model.first, model.second, model):
        fully_shard(part, mesh=mesh["shard"])
    inner = inner_of(model)
    diloco = DiLoCo(model, inner, group=mesh.get_group("site"), sync_every=EVERY, compression="none")
    with diloco:
        train_with(diloco, model, ROUNDS * EVERY, site)
    members, base = run(2, ROUNDS * EVERY, EVERY, parts_of(model, 1))
    far = distance(model, members[site])
    # A checkpoint of one site, read again by its mesh.
    saved = diloco.state_dict()
    held = saved["base"]["first.weight"]
    far = max(far, float((held.full_tensor() - base["first.weight"]).abs().max()))
    path = Path(folder) / f"site{site}"
    checkpoint.save({"diloco": saved}, checkpoint_id=path, process_group=mesh.get_group("shard"))
    fresh = DiLoCo(model, inner, group=mesh.get_group("site"), sync_every=EVERY)
    empty = fresh.state_dict()
    checkpoint.load({"diloco": empty}, checkpoint_id=path, process_group=mesh.get_group("shard"))
    fresh.load_state_dict(empty)
    again = fresh.state_dict()
    same = all(torch.equal(again["base"][n].to_local(), saved["base"][n].to_local()) for n in saved["base"])
    for name, held in saved["outer"].items():
        read = again["outer"][name]["momentum_buffer"].to_local()
        same = same and torch.equal(read, held["momentum_buffer"].to_local()) and bool(read.any())
    return [far, saved["base"]["first.weight"].to_local().shape[0], same]


def test_shards_of_fsdp2_are_exchanged_with_the_same_shards_of_other_sites() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for far, rows, same in ranks.run(be_sharded, 4, folder):
            assert far < CLOSE
            assert rows == 32  # half of them
            assert same


def be_compressed(rank: int, size: int, kind: str) -> Any:
    torch.manual_seed(1)
    model = torch.nn.Linear(256, 256, bias=False)
    start = model.weight.detach().clone()
    inner = torch.optim.SGD(model.parameters(), lr=1.0)
    # With an outer step of 1 the average of the changes.
    outer = Nesterov(lr=1.0, momentum=0.0)
    with DiLoCo(model, inner, sync_every=1, outer=outer, compression=kind, weight="equal") as diloco:
        whole = torch.zeros_like(start)
        for step in range(6):
            pushes = [
                torch.randn(256, 256, generator=torch.Generator().manual_seed(10 * step + r))
                for r in range(size)
            ]
            model.weight.grad = pushes[rank]
            inner.step()
            whole += torch.stack(pushes).mean(0)
    off = float((model.weight.detach() - (start - whole)).norm() / whole.norm())
    kept = diloco.state_dict()["rounds"]["0"]["residual"]
    return [off, kept.numel(), digest(model)]


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        ("none", 0, 1e-6),
        ("fp16", 1e-6, 2e-3),
        ("bf16", 1e-5, 1e-2),
        ("int8:feedback", 1e-5, 2e-2),
        ("top-k:0.3", 1e-3, 0.7),
    ],
)
def test_changes_are_compressed_and_everybody_has_the_same_bits(kind: str, least: float, most: float) -> None:
    results = ranks.run(be_compressed, 3, kind)
    for off, kept, said in results:
        assert least <= off <= most
        assert kept == (65536 if ":" in kind else 0)
        assert said == results[0][2]


def be_killed(rank: int, size: int, victim: int, delay: int) -> Any:
    model = Model()
    inner = inner_of(model)
    options = {"fragments": 2, "fragment_sync_delay": delay, "timeout": LIMIT}
    with DiLoCo(model, inner, sync_every=EVERY, compression="int8:feedback", **options) as diloco:
        for step in range(8 * EVERY):
            if rank == victim and step == 4 * EVERY + 1:
                os.kill(os.getpid(), signal.SIGKILL)
            before = digest(model)
            lost = sum(one.is_lost for one in diloco.history)
            train_with(diloco, model, 1, rank, step)
            if sum(one.is_lost for one in diloco.history) > lost:
                assert digest(model) != before  # what it learned is here still
        diloco.sync()
    lost_rounds = [one.loss for one in diloco.history if one.is_lost]
    return [digest(model), len(lost_rounds), diloco.history[-1].members, len(diloco.history)]


@pytest.mark.parametrize(("victim", "delay"), [(2, 0), (0, 1)])
def test_members_go_on_when_one_is_killed_with_what_they_learned(victim: int, delay: int) -> None:
    nodes = [{"SQUARE_NODE": f"site{rank}"} for rank in range(4)]
    results = ranks.run(be_killed, 4, victim, delay, environments=nodes, expect_deaths=True)
    left = [one for rank, one in enumerate(results) if rank != victim]
    for said, lost, members, rounds in left:
        assert said == left[0][0]
        assert lost >= 1
        assert members == 3
        assert rounds >= 16


def miss_a_commit(rank: int, size: int, fragments: int) -> Any:
    """Rank 3 dies when all have voted; rank 1 does not hear that the round is committed."""
    model = Model()
    agree = rounds_of_diloco._agree
    votes = []

    def interrupted(is_well: bool, group: Any, device: Any) -> bool:
        answer = agree(is_well, group, device)
        votes.append(answer)
        if len(votes) == 5 and rank == 3:
            time.sleep(0.3)  # the others have its vote
            os.kill(os.getpid(), signal.SIGKILL)
        return answer and not (len(votes) == 5 and rank == 1)

    rounds_of_diloco._agree = interrupted
    options = {"fragments": fragments, "compression": "int8:feedback", "timeout": LIMIT}
    with DiLoCo(model, inner_of(model), sync_every=EVERY, **options) as diloco:
        train_with(diloco, model, 8 * EVERY, rank)
        diloco.sync()
    numbers = [one.number for one in diloco.history if not one.is_lost]
    return [digest(model), diloco.tokens, diloco.history[-1].members, numbers]


@pytest.mark.parametrize("fragments", [1, 2])
def test_who_misses_a_commit_takes_the_round_from_the_others(fragments: int) -> None:
    nodes = [{"SQUARE_NODE": f"site{rank}"} for rank in range(4)]
    results = ranks.run(miss_a_commit, 4, fragments, environments=nodes, expect_deaths=True)
    for said, counted, members, numbers in results[:3]:
        assert (said, counted, members) == (results[0][0], results[0][1], 3)
        assert numbers[-1] == results[0][3][-1]
    assert len(results[1][3]) == len(results[0][3]) - 1  # it did not see that one


def fail_for_ever(rank: int, size: int) -> Any:
    model = Model()
    with DiLoCo(model, inner_of(model), sync_every=1, timeout=LIMIT) as diloco:
        train_with(diloco, model, 2, rank)
        before = diloco.history[-1].number

        def begin(*_: Any) -> Any:
            raise RuntimeError("out of memory")

        diloco._fragments[0].sums.begin = begin
        with pytest.raises(RuntimeError, match=r"5 rounds in a row .* out of memory"):
            train_with(diloco, model, 20, rank, 2)
    return [before, diloco.steps, digest(model) != []]


def test_what_fails_with_nobody_gone_is_an_error_in_the_end() -> None:
    assert ranks.run(fail_for_ever, 2) == [[2, 7, True]] * 2


def overflow(rank: int, size: int) -> Any:
    model = torch.nn.Linear(4, 4)
    inner = torch.optim.SGD(model.parameters(), lr=1.0)
    with DiLoCo(model, inner, sync_every=1, compression="fp16", weight="equal") as diloco:
        for size_of_step in (1.0, 50_000.0, 1.0):
            model.weight.grad = torch.full((4, 4), size_of_step)
            inner.step()
            if size_of_step > 1:
                model.weight.data /= 2  # what was learned is still here, and is made smaller
    return [["finite" in one.loss for one in diloco.history], digest(model)]


def test_a_sum_beyond_half_precision_is_a_lost_round_on_all() -> None:
    results = ranks.run(overflow, 2)
    assert results[0] == results[1]
    lost, said = results[0]
    assert lost == [False, True, False]
    assert all(abs(value) < 1e6 for value in said)


def enter_twice(rank: int, size: int) -> Any:
    model = Model()
    diloco = DiLoCo(model, inner_of(model), sync_every=EVERY, compression="none")
    with diloco:
        train_with(diloco, model, 3, rank)
    with diloco:
        train_with(diloco, model, 2 * EVERY - 3, rank, 3)
    return distance(model, run(size, 2 * EVERY, EVERY, parts_of(model, 1))[0][rank])


def test_a_loop_in_two_parts_is_one_loop() -> None:
    assert max(ranks.run(enter_twice, 2)) < CLOSE


def be_not_a_number(rank: int, size: int, fragments: int) -> Any:
    model = Model()
    inner = inner_of(model)
    with DiLoCo(model, inner, sync_every=EVERY, fragments=fragments) as diloco:
        train_with(diloco, model, EVERY, rank)
        if rank == 1:
            with torch.no_grad():
                model.first.weight[0, 0] = float("nan")
        train_with(diloco, model, 2 * EVERY, rank, EVERY)
    rounds = [(one.excluded, round(one.weight, 3)) for one in diloco.history]
    return [rounds, digest(model)]


def test_a_member_with_a_nan_is_left_out_and_comes_back() -> None:
    first, second, third = ranks.run(be_not_a_number, 3, 1)
    assert first[0] == [[[], 0.167], [[1], 0.25], [[], 0.167]]
    assert second[0] == [[[], 0.333], [[1], 0.0], [[], 0.333]]
    assert first[1] == second[1] == third[1]
    assert all(value == value for value in first[1])


def test_a_member_with_a_nan_comes_back_in_all_fragments() -> None:
    for rounds, said in ranks.run(be_not_a_number, 3, 2):
        assert [1] in [excluded for excluded, _ in rounds]
        assert [excluded for excluded, _ in rounds[-2:]] == [[], []]
        assert all(value == value for value in said)


def be_resumed(rank: int, size: int, kind: str) -> Any:
    def begin(model: Any) -> DiLoCo:
        options = {"fragments": 2, "compression": kind}
        return DiLoCo(model, torch.optim.SGD(model.parameters(), lr=0.05), sync_every=EVERY, **options)

    model = Model()
    with begin(model) as diloco:
        train_with(diloco, model, 5 * EVERY, rank)
        kept = {"model": {k: v.clone() for k, v in model.state_dict().items()}, "diloco": diloco.state_dict()}
        train_with(diloco, model, 5 * EVERY, rank, 5 * EVERY)
    again = Model()
    again.load_state_dict(kept["model"])
    resumed = begin(again)
    resumed.load_state_dict(kept["diloco"])
    with resumed:
        train_with(resumed, again, 5 * EVERY, rank, 5 * EVERY)
    return [digest(model), digest(again), diloco.tokens, resumed.tokens, diloco.steps, resumed.steps]


@pytest.mark.parametrize("kind", ["none", "int8:feedback"])
def test_who_goes_on_from_a_checkpoint_comes_to_the_same_bits(kind: str) -> None:
    for whole, resumed, *clocks in ranks.run(be_resumed, 2, kind):
        assert whole == resumed
        assert clocks[0] == clocks[1]
        assert clocks[2] == clocks[3] == 10 * EVERY


def be_an_optimizer(rank: int, size: int) -> Any:
    model = Model()
    optimizer = DiLoCoOptimizer(
        model.named_parameters(), None, EVERY, lambda p: torch.optim.AdamW(p, lr=1e-2), compression="none"
    )
    for step in range(3 * EVERY):
        optimizer.diloco.consumed(tokens(rank))
        train(model, optimizer, step, rank)
    optimizer.close()
    return distance(model, run(size, 3 * EVERY, EVERY, parts_of(model, 1))[0][rank])


@pytest.mark.parametrize("backend", ["square", "gloo"])
def test_as_an_optimizer_and_over_another_backend_it_is_the_same(backend: str) -> None:
    assert max(ranks.run(be_an_optimizer, 2, backend=backend)) < CLOSE


def make_a_short_round(rank: int, size: int, kind: str) -> Any:
    """A hundred steps, then one: what feedback kept is of the first round's weight."""
    torch.manual_seed(1)
    model = torch.nn.Linear(256, 256, bias=False)
    start = model.weight.detach().clone()
    inner = torch.optim.SGD(model.parameters(), lr=0.01)
    outer = Nesterov(lr=1.0, momentum=0.0)
    with DiLoCo(
        model, inner, sync_every=100, outer=outer, compression=kind, fragment_update_alpha=0.5
    ) as diloco:
        for step in range(101):
            source = torch.Generator().manual_seed(10 * step + rank)
            model.weight.grad = torch.randn(256, 256, generator=source)
            inner.step()
        diloco.sync()
        before = digest(model)
        diloco.sync()  # nobody has stepped: nothing changes
    return [float((model.weight.detach() - start).norm()), digest(model), digest(model) == before]


def test_a_short_round_and_a_sync_leave_one_model_where_it_belongs() -> None:
    plain = ranks.run(make_a_short_round, 2, "none")
    for kind in ("int8:feedback", "top-k:0.05:feedback"):
        results = ranks.run(make_a_short_round, 2, kind)
        assert results[0] == results[1]
        assert results[0][2]
        assert results[0][0] < 1.2 * plain[0][0]


def be_half(rank: int, size: int) -> Any:
    """Of a model in bfloat16 the base is float32, and rounding is not taken for a change."""
    model = Model().bfloat16()
    before = digest(model)
    inner = torch.optim.SGD(model.parameters(), lr=0.0)
    with DiLoCo(model, inner, sync_every=1, outer=Nesterov(0.3, 0.5)) as diloco:
        for _ in range(3):
            model.first.weight.grad = torch.ones_like(model.first.weight)
            inner.step()
    return [digest(model) == before, [one.norm for one in diloco.history], diloco.history[0].weight]


def test_rounding_to_half_precision_is_no_change() -> None:
    for same, norms, weight in ranks.run(be_half, 2):
        assert same
        assert norms == [0.0, 0.0, 0.0]
        assert weight == 0.5  # by steps: nobody says tokens


def be_refused(rank: int, size: int) -> Any:
    def failure(model: Any, **options: Any) -> str:
        with pytest.raises(ValueError, match="differ") as error, DiLoCo(model, inner_of(model), **options):
            pass
        return str(error.value)

    tied = Model()
    tied.second.bias = tied.norm.bias if rank else tied.second.bias
    wide = torch.nn.Linear(3, 4 + rank)
    said = [failure(wide), failure(Model(), sync_every=5 + rank)]
    assert "compression: none" in failure(Model(), compression="bf16" if rank else "none")
    assert "outer: SGD" in failure(Model(), outer=Nesterov(lr=0.5 + 0.1 * rank))
    frozen = Model()
    frozen.first.weight.requires_grad_(rank == 0)
    said.append(failure(frozen))
    # The group is as good as before.
    model = Model()
    with DiLoCo(model, inner_of(model), sync_every=2) as diloco:
        train_with(diloco, model, 2, rank)
    return [*said, len(diloco.history)]


def test_models_that_differ_are_refused_by_all_with_the_difference() -> None:
    for wide, every, frozen, rounds in ranks.run(be_refused, 2):
        assert "rank 0 has weight: (4, 3)" in wide
        assert "rank 1 has weight: (5, 3)" in wide
        assert "rank 0 has sync_every: 5, rank 1 has sync_every: 6" in every
        assert "rank 0 has first.weight" in frozen
        assert "rank 1 has first.bias" in frozen
        assert rounds == 1


def test_arguments_that_cannot_be_are_refused_at_once() -> None:
    model = Model()
    inner = inner_of(model)
    for options, text in [
        ({"fragments": "even"}, 'neither a number nor "balanced:P"'),
        ({"fragments": 7}, "1 to 6"),
        ({"fragments": [model.first]}, "norm.weight"),
        ({"fragments": [model, model.norm]}, "fragments 0 and 1"),
        ({"sync_every": 0}, "sync_every"),
        ({"sync_every": 4, "fragment_sync_delay": 4}, "0 to 3 steps"),
        ({"fragment_update_alpha": 1.5}, "0 to 1"),
        ({"weight": "loss"}, "tokens, equal"),
        ({"on_lost_round": "retry"}, "carry, raise"),
        ({"compression": "zip"}, "zip"),
    ]:
        with pytest.raises(ValueError, match=text):
            DiLoCo(model, inner, **options)
    with pytest.raises(ValueError, match="momentum"):
        square.diloco.Nesterov(momentum=1.0)
    with pytest.raises(ValueError, match=r"does not train first\.weight"):
        DiLoCo(model, inner_of(Model()))
    with pytest.raises(ValueError, match="no parameter"):
        DiLoCo(model.requires_grad_(False), inner)


def test_fragments_are_of_about_one_size_and_each_has_something() -> None:
    named = [(str(i), torch.nn.Parameter(torch.zeros(size))) for i, size in enumerate([900, 1, 1, 500, 498])]
    assert [[name for name, _ in part] for part in split(named, 2)] == [["0", "1", "2"], ["3", "4"]]
    for count in range(1, 6):
        parts = split(named, f"balanced:{count}")
        assert len(parts) == count
        assert [one for part in parts for one in part] == named


def test_the_example() -> None:
    program = REPOSITORY / "examples" / "torch_diloco.py"
    command = [sys.executable, "-P", str(program)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ranks.SECONDS)
    assert result.returncode == 0, result.stderr
    assert "round 11 is lost" in result.stdout
    assert "3 members at the end" in result.stdout
