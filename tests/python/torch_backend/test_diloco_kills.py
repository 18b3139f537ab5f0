"""DiLoCo whose members are killed at any moment, on drawn schedules: who is left has the same model."""

import os
import random
import signal
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
import ranks
from diloco_reference import Model, inner_of, tokens, train
from square.diloco import DiLoCo

MEMBERS = 4
STEPS = 400
LIMIT = timedelta(seconds=30)


def draw(seed: int) -> dict[str, Any]:
    source = random.Random(seed)
    every = source.choice([1, 2, 4])
    return {
        "sync_every": every,
        "fragments": source.randint(1, min(3, every)),
        "fragment_sync_delay": source.randrange(every),
        "compression": source.choice(["none", "bf16", "int8:feedback"]),
        "victims": source.sample(range(MEMBERS), source.choice([1, 1, 2])),
        "seconds": [source.uniform(0.0, 1.5) for _ in range(2)],
    }


def go_on(rank: int, size: int, drawn: dict[str, Any]) -> Any:
    options = dict(drawn)
    victims, seconds = options.pop("victims"), options.pop("seconds")
    model = Model()
    with DiLoCo(model, inner_of(model), timeout=LIMIT, **options) as diloco:
        timer = threading.Timer(
            seconds[victims.index(rank)] if rank in victims else 0.0,
            lambda: os.kill(os.getpid(), signal.SIGKILL),
        )
        for step in range(STEPS):
            # A round is over: all are inside.
            if rank in victims and diloco.history and timer.ident is None:
                timer.start()
            diloco.consumed(tokens(rank))
            train(model, diloco.inner, step, rank)
            time.sleep(0.005)  # all are killed before the end
        diloco.sync()
    said = [float(parameter.detach().double().sum()) for parameter in model.parameters()]
    return [said, diloco.tokens, diloco.history[-1].members, sum(one.is_lost for one in diloco.history)]


def check(seed: int) -> None:
    drawn = draw(seed)
    print(drawn)
    nodes = [{"SQUARE_NODE": f"site{rank}"} for rank in range(MEMBERS)]
    results = ranks.run(go_on, MEMBERS, drawn, environments=nodes, expect_deaths=True)
    left = [one for rank, one in enumerate(results) if rank not in drawn["victims"]]
    for said, counted, members, lost in left:
        assert (said, counted) == (left[0][0], left[0][1])
        assert members == len(left)
        assert lost >= 1


@pytest.mark.parametrize("number", range(2))
def test_who_is_left_has_the_same_model(seed: int, number: int) -> None:
    check(seed + number)


@pytest.mark.long
@pytest.mark.parametrize("number", range(30))
def test_who_is_left_has_the_same_model_many_times(seed: int, number: int) -> None:
    check(seed + number)
