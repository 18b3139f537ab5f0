"""The decoupled mode of square.diloco: members of uneven speed, one that dies, and what is refused."""

import functools
import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import ranks
import torch
from square import hosts, ps
from square.diloco import DiLoCo, DiLoCoOptimizer, Nesterov, hosting
from square.diloco.hosting import address_for
from square.errors import SquareError
from torch import distributed as dist

FEATURES, BATCH, EVERY = 8, 16, 5
LIMIT = timedelta(seconds=30)
CALM = Nesterov(lr=0.7, momentum=0.5)
# Of the slow member; the others train until it is through, at most so many.
STEPS, MOST_STEPS = 40, 5000


class Descent:
    """Gradient descent, with as much of a torch optimizer as DiLoCo looks at.

    The first one of torch imports a compiler, which takes seconds in every process.
    """

    def __init__(self, model: torch.nn.Module, lr: float = 0.05) -> None:
        self.param_groups = [{"params": list(model.parameters()), "lr": lr}]
        self.state: dict[Any, Any] = {}
        self._hooks: list[Callable[..., None]] = []

    def register_step_post_hook(self, hook: Callable[..., None]) -> Any:
        self._hooks.append(hook)
        hooks = self._hooks

        class Handle:
            def remove(self) -> None:
                hooks.remove(hook)

        return Handle()

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.sub_(parameter.grad, alpha=self.param_groups[0]["lr"])
            parameter.grad = None
        for hook in self._hooks:
            hook(self, (), {})


class Regression:
    """A linear one, whose data all members draw for themselves."""

    def __init__(self, seed: int, member: int) -> None:
        torch.manual_seed(seed + 1 + member)  # each member has another model at first
        self.model = torch.nn.Linear(FEATURES, 1)
        self.inner = Descent(self.model)
        self.consumed = 0
        self._weights = torch.randn(1, FEATURES, generator=torch.Generator().manual_seed(seed))
        self._source = torch.Generator().manual_seed(seed + 1000 * (member + 1))
        self._held_out = torch.randn(256, FEATURES, generator=torch.Generator().manual_seed(seed + 1))

    def loss(self, inputs: torch.Tensor | None = None) -> Any:
        inputs = self._held_out if inputs is None else inputs
        return (self.model(inputs) - inputs @ self._weights.T).square().mean()

    def train(self, diloco: DiLoCo) -> None:
        self.loss(torch.randn(BATCH, FEATURES, generator=self._source)).backward()
        diloco.consumed(BATCH)
        self.consumed += BATCH
        diloco.inner.step()

    def digest(self) -> list[float]:
        return [float(p.detach().double().sum()) for p in self.model.parameters()]


def decoupled(task: Regression, **options: Any) -> DiLoCo:
    options = {"mode": "decoupled", "sync_every": EVERY, "outer": CALM, **options}
    return DiLoCo(task.model, task.inner, **options)


def refusals(rank: int, folder: Path) -> list[str]:
    """What members say that have nothing in common; the group is as good as before."""
    said = []
    wide = torch.nn.Linear(3, 4 + rank)
    task = Regression(0, rank)
    if rank == 0:
        (folder / "server1").write_text("no folder")
    for make in (
        lambda: decoupled(task, quorum=1 + rank),
        lambda: decoupled(task, servers=4),
        lambda: DiLoCo(wide, Descent(wide), mode="decoupled", timeout=LIMIT),
        lambda: decoupled(task, servers=2, snapshots=folder),
    ):
        with pytest.raises((ValueError, RuntimeError, SquareError)) as error, make():
            pass
        said.append(str(error.value))
    return said


def be_uneven(rank: int, size: int, seed: int, folder: str) -> Any:
    refused = refusals(rank, Path(folder))
    task = Regression(seed, rank)
    is_done = Path(folder) / "done"
    with decoupled(task) as diloco:
        first = float(task.loss().detach())
        steps = STEPS if rank == size - 1 else MOST_STEPS
        while diloco.steps < steps and not is_done.exists():
            task.train(diloco)
            time.sleep(0.002 * 8**rank / 4)
        if rank == size - 1:
            is_done.touch()
    adopted = [one for one in diloco.history if one.outcome == "adopted"]
    return {
        "first": first,
        "last": float(task.loss().detach()),
        "rounds": len(adopted),
        "taken": {one.decision for one in adopted} == {"taken"},
        "waited": sum(one.waited_seconds for one in diloco.history),
        "consumed": task.consumed,
        "tokens": diloco.tokens,
        "version": diloco.version,
        "refused": refused,
    }


def test_each_member_trains_at_its_speed_and_all_of_it_counts(seed: int, tmp_path: Path) -> None:
    results = ranks.run(be_uneven, 3, seed, str(tmp_path))
    for one in results:
        print(one)
        assert one["first"] == results[0]["first"]  # that of rank 0's model
        assert one["last"] < one["first"] / 2
        assert one["taken"]
    fast, _, slow = results
    assert fast["rounds"] > slow["rounds"] >= STEPS // EVERY
    # Rank 0 ends with what all have come to.
    assert fast["tokens"] == sum(one["consumed"] for one in results)
    assert fast["version"] == max(one["version"] for one in results)
    for rank, (terms, servers, wide, folder) in enumerate(one["refused"] for one in results):
        assert "rank 0 has quorum: 1, rank 1 has quorum: 2" in terms
        assert "servers: 1 to 3" in servers
        assert "weight" in wide
        assert ("rank 1 cannot begin" in folder) == (rank != 1)
        assert "server1" in folder


def be_left(rank: int, size: int, seed: int, folder: str) -> Any:
    hosting.Master = functools.partial(ps.Master, lease=3.0)  # the usual 5 s is longer to wait for
    task = Regression(seed, rank)
    with decoupled(task, quorum=2, grace=0.0, snapshots=folder, timeout=LIMIT) as diloco:
        for step in range(STEPS):
            if rank == 2 and step == STEPS // 3 + 1:
                os._exit(9)
            task.train(diloco)
            time.sleep(0.005)
    said = [task.consumed, diloco.tokens, diloco.version, float(task.loss().detach()), task.digest()]
    if rank == 0:  # fewer begin again
        only = dist.new_group([0], use_local_synchronization=True)
        with decoupled(task, group=only, snapshots=folder, timeout=LIMIT) as diloco:
            begun = diloco.version, diloco.tokens, task.digest()
            for _ in range(3 * EVERY):
                task.train(diloco)
        said += [begun, diloco.version]
    return said


def test_nobody_waits_for_a_member_that_dies(seed: int, tmp_path: Path) -> None:
    """In gloo's group, where a collective call would hang or fail."""
    first, second, dead = ranks.run(be_left, 3, seed, str(tmp_path), backend="gloo", expect_deaths=True)
    assert dead is None
    begun, last = first[5:]
    assert begun == [first[2], first[1], first[4]]
    assert last == first[2] + 3
    own = first[0] + second[0]
    lost = BATCH * (STEPS // 3 + 1)
    assert own == 2 * BATCH * STEPS
    assert own <= first[1] <= own + lost
    assert first[2] >= second[2] > 2
    assert max(first[3], second[3]) < 1e3


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A group of one, in this process."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_who_begins_again_goes_on_from_the_snapshots(alone: None, seed: int, tmp_path: Path) -> None:
    task = Regression(seed, 0)
    folder = tmp_path / "snapshots"
    with decoupled(task, snapshots=folder, compression=None) as diloco:
        for _ in range(2 * EVERY + 1):
            task.train(diloco)
        assert (diloco.version, diloco.tokens) == (3, task.consumed)
        saved = diloco.state_dict()
        assert (diloco.version, saved["decoupled"]["version"]) == (4, 4)
    there = task.digest()
    kept = ps.read_model([max((folder / "server0").glob("*.snapshot"))])
    assert [float(one.astype("float64").sum()) for one in kept.values()] == pytest.approx(there)

    again = Regression(seed + 50, 0)
    elsewhere = decoupled(again)
    elsewhere.load_state_dict(saved)
    with pytest.raises(ValueError, match=r"snapshots: the servers have version 1, .* of 4"):
        elsewhere.__enter__()
    resumed = decoupled(again, snapshots=folder)
    resumed.load_state_dict(saved)
    with resumed:
        assert again.digest() == there
        assert (resumed.version, resumed.tokens, resumed.steps) == (4, task.consumed, 2 * EVERY + 1)
        for _ in range(EVERY):
            again.train(resumed)
    assert resumed.tokens == task.consumed + again.consumed
    there, version = again.digest(), resumed.version
    with resumed:  # another block
        assert (resumed.version, again.digest()) == (version, there)
        again.train(resumed)
    assert resumed.version == version + 1
    with pytest.raises(ValueError, match="of another mode"):
        resumed.load_state_dict({"clock": {}, "base": {}})
    with pytest.raises(ValueError, match='mode="decoupled"'):
        DiLoCo(again.model, again.inner).load_state_dict(saved)


def test_others_may_join_and_a_nan_counts_for_nothing(alone: None, seed: int) -> None:
    member, joiner = Regression(seed, 0), Regression(seed, 1)
    with decoupled(member, join="peers", timeout=LIMIT) as diloco:
        for _ in range(EVERY):
            member.train(diloco)
        with decoupled(joiner, join="peers", invitation=diloco.invitation(), timeout=LIMIT) as late:
            assert joiner.digest() == member.digest()
            assert late.tokens == diloco.tokens == member.consumed
            for _ in range(EVERY):
                joiner.train(late)
            with torch.no_grad():
                joiner.model.weight[0, 0] = float("nan")
            joiner.train(late)
        assert [one.decision for one in late.history] == ["taken", "non-finite"]
        assert not any(one.is_lost for one in late.history)
        assert bool(torch.isfinite(joiner.model.weight).all())
        version = late.version
        assert version > diloco.version
    assert (diloco.version, diloco.tokens) == (version, member.consumed + joiner.consumed)
    assert member.digest() == joiner.digest()


def test_as_an_optimizer_it_counts_steps_where_nobody_says_tokens(alone: None, seed: int) -> None:
    task = Regression(seed, 0)
    optimizer = DiLoCoOptimizer(
        task.model.named_parameters(),
        None,
        EVERY,
        lambda parameters: torch.optim.SGD(parameters, lr=0.05),
        mode="decoupled",
    )
    for _ in range(EVERY + 2):
        task.loss().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert (optimizer.diloco.tokens, optimizer.diloco.version) == (EVERY + 2, 2)
    optimizer.close()
    assert (optimizer.diloco.tokens, optimizer.diloco.version) == (EVERY + 2, 3)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fragments": 2}, "fragments: "),
        ({"fragments": "balanced:2"}, "fragments: "),
        ({"links": object()}, "links: "),
        ({"fragment_sync_delay": 1}, "fragment_sync_delay: "),
        ({"fragment_update_alpha": 0.5}, "fragment_update_alpha: "),
        ({"on_lost_round": "raise"}, "on_lost_round: "),
        ({"backup_device": "meta"}, "backup_device: "),
        ({"weight": "equal"}, 'weight: .* not "equal"'),
        ({"compression": "int8"}, 'compression: .*"bf16" and "none", not "int8"'),
        ({"compression": "fp16"}, "compression: "),
        ({"compression": "top-k:0.1"}, "compression: "),
        ({"outer": lambda parameters: torch.optim.SGD(parameters, lr=1.0)}, "outer: "),
        ({"sync_every": 0}, "sync_every: "),
        ({"quorum": 0}, "quorum: "),
        ({"servers": 0}, "servers: "),
        ({"grace": -1.0}, "grace: "),
        ({"grace": "soon"}, 'grace: .*"soon"'),
        ({"join": "all"}, "join: "),
        ({"invitation": "{}"}, 'invitation: .*join="peers"'),
        ({"invitation": "[]", "join": "peers"}, "invitation: it is not of"),
        ({"invitation": "{}", "join": "peers", "group": object()}, "invitation: .* no group"),
        ({"mode": "sync", "quorum": 2}, 'quorum: only mode="decoupled"'),
        ({"mode": "eager", "snapshots": "here"}, 'snapshots: only mode="decoupled"'),
    ],
)
def test_arguments_that_cannot_be_are_named(options: dict[str, Any], text: str) -> None:
    task = Regression(0, 0)
    with pytest.raises(ValueError, match=text):
        DiLoCo(task.model, task.inner, **{"mode": "decoupled", **options})


def test_what_is_no_argument_and_what_comes_too_early() -> None:
    task = Regression(0, 0)
    for mode in ("sync", "decoupled"):
        with pytest.raises(TypeError, match="no argument fragment"):
            DiLoCo(task.model, task.inner, mode=mode, fragment=1)
    # What is usual elsewhere may be said.
    usual = {"fragments": 1, "fragment_sync_delay": 0, "backup_device": torch.device("cpu"), "links": None}
    diloco = DiLoCo(task.model, task.inner, mode="decoupled", grace=timedelta(seconds=1), **usual)
    with pytest.raises(ValueError, match="at least 0 tokens"):
        diloco.consumed(-1)
    with pytest.raises(ValueError, match="inside of the `with`"):
        diloco.sync()
    with pytest.raises(ValueError, match="nobody is taken in"):
        diloco.invitation()
    with pytest.raises(ValueError, match="no default group"):
        diloco.__enter__()
    task.model.weight.device_mesh = object()  # as a DTensor has one
    with pytest.raises(ValueError, match="weight is sharded"):
        decoupled(task)


def test_the_master_is_where_the_others_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert address_for(None, ["here", "here"], "none") == hosts.LOOPBACK
    monkeypatch.setenv("SQUARE_INTERFACE", "127.0.0.2")
    assert address_for(None, ["here", "there"], "none") == "127.0.0.2"
