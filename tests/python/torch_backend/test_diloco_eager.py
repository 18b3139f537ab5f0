"""Eager updates of square.diloco against the paper's in one process, and what befalls its members."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import ranks
import torch
from diloco_reference import Model, inner_of, run_eager
from square.diloco import DiLoCo
from test_diloco import CLOSE, EVERY, LIMIT, digest, distance, parts_of, train_with
from test_diloco_join import STEPS, be_joiner, be_member, close

ROUNDS = 10
EAGER = {"sync_every": EVERY, "mode": "eager", "compression": "none"}


def be_eager(rank: int, size: int, fragments: int) -> Any:
    model = Model()
    with DiLoCo(model, inner_of(model), fragments=fragments, **EAGER) as diloco:
        train_with(diloco, model, ROUNDS * EVERY, rank)
        members = run_eager(size, ROUNDS * EVERY, EVERY, parts_of(model, fragments))
        far = [distance(model, members[rank])]
        saved = diloco.state_dict()
        kept = {key: value.clone() for key, value in model.state_dict().items()}
        train_with(diloco, model, 3, rank, ROUNDS * EVERY)
        diloco.sync()
    # From the checkpoint to the same model again: with plain steps, of which there are no moments.
    again = Model()
    again.load_state_dict(kept)
    resumed = DiLoCo(again, torch.optim.SGD(again.parameters(), lr=0.0), fragments=fragments, **EAGER)
    resumed.load_state_dict(saved)
    with resumed:
        resumed.sync()
    return [max(far), digest(model), digest(again), len(diloco.history), diloco.tokens == resumed.tokens]


@pytest.mark.parametrize("fragments", [1, 2])
def test_it_is_the_paper(fragments: int) -> None:
    results = ranks.run(be_eager, 3, fragments)
    for far, synced, resumed, rounds, _ in results:
        assert far < CLOSE
        # The same bits everywhere, when all have all.
        assert synced == results[0][1]
        assert resumed == results[0][2]
        assert rounds >= fragments * ROUNDS


def be_killed(rank: int, size: int) -> Any:
    model = Model()
    with DiLoCo(model, inner_of(model), timeout=LIMIT, **EAGER) as diloco:
        for step in range(8 * EVERY):
            if rank == 0 and step == 4 * EVERY + 1:
                os.kill(os.getpid(), signal.SIGKILL)
            if rank == 1 and step == 2 * EVERY + 1:
                with torch.no_grad():
                    model.first.weight[0, 0] = float("nan")
            train_with(diloco, model, 1, rank, step)
        diloco.sync()
    excluded = [one.excluded for one in diloco.history if one.excluded]
    return [digest(model), diloco.tokens, diloco.history[-1].members, excluded]


def test_members_go_on_where_one_is_killed_and_one_has_a_nan() -> None:
    nodes = [{"SQUARE_NODE": f"site{rank}"} for rank in range(3)]
    _, first, second = ranks.run(be_killed, 3, environments=nodes, expect_deaths=True)
    assert first == second
    assert all(value == value for value in first[0])
    assert first[2:] == [2, [[1]]]


def join_in(rank: int, size: int, folder: str) -> Any:
    be = be_member(rank, 2, folder, 1, mode="eager") if rank < 2 else be_joiner(rank, folder, mode="eager")
    diloco, model = be
    base = [float(one.double().sum()) for one in diloco.state_dict()["base"].values()]
    return [base, close(diloco, model)[1:]]


def test_who_joins_has_what_all_share(tmp_path: Path) -> None:
    results = ranks.run(join_in, 3, str(tmp_path), backend=None)
    assert results[0] == results[1] == results[2]
    assert results[0][1][1:] == [STEPS, 3, 0]


def test_what_goes_with_no_eager_mode_is_refused() -> None:
    model = Model()
    for options, text in [
        ({"mode": "eager", "fragment_sync_delay": 1}, "neither"),
        ({"mode": "eager", "fragment_update_alpha": 0.5}, "neither"),
        ({"mode": "late"}, "none of sync, eager, decoupled"),
    ]:
        with pytest.raises(ValueError, match=text):
            DiLoCo(model, inner_of(model), **options)
