"""Nothing goes between two parts of a job's sites for a while: one of them at most has a model in the end."""

import json
import random
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import going_on_loops
import pytest
import ranks
import square
from commands import wait_until
from going_on_loops import AFTERWARDS_SECONDS, LATEST_SECONDS, LOOPS
from square.errors import SquareError
from square.run import namespaces
from square.run.ranks import Ranks
from square.run.sites import Sites
from test_stopped_ranks import LEFT, STOPS_SECONDS

NOBODY = "02:ff:ff:ff:ff:ff"


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    try:
        namespaces.check_possible()
        namespaces.Namespace().close()
    except SquareError as error:
        pytest.skip(str(error))


def redirect(
    sites: Sites, site: str, others: Sequence[str], hardware: dict[str, str] | None
) -> dict[str, str]:
    """Sends what goes to `others` to other interfaces, or nowhere: a way that is silent. What was there."""
    addresses = [sites.address_of(other) for other in others]
    network = sites.network(site)
    said = network.run(lambda: subprocess.run(["ip", "neigh"], capture_output=True, text=True, check=True))
    entries = [line.split() for line in said.stdout.splitlines()]
    was = {address: (words[2], words[4]) for words in entries if (address := words[0]) in addresses}
    assert set(was) == set(addresses), said.stdout
    lines = [
        f"neigh replace {address} dev {interface} nud permanent "
        f"lladdr {NOBODY if hardware is None else hardware[address]}"
        for address, (interface, _) in was.items()
    ]
    network.run(lambda: namespaces.run_batch("ip", lines))
    return {address: where for address, (_, where) in was.items()}


def cut(sites: Sites, parts: tuple[list[str], list[str]], seconds: float) -> None:
    pairs = [(one, own, other) for own, other in (parts, parts[::-1]) for one in own]
    were = [redirect(sites, one, other, None) for one, _, other in pairs]
    time.sleep(seconds)
    for (one, _, other), was in zip(pairs, were, strict=True):
        redirect(sites, one, other, was)


def all_exist(files: Iterable[Path]) -> bool:
    return all(file.exists() for file in files)


def check(folder: Path, kind: str, size: int, first: int, seconds: float, moment: float) -> None:
    names = [f"site{number}" for number in range(size)]
    chosen = random.Random(first).sample(names, first)
    parts = ([name for name in names if name in chosen], [name for name in names if name not in chosen])
    command = [going_on_loops.__file__, kind, str(folder), str(seconds)]
    with Sites(square.Topology.full_mesh(names)) as sites, Ranks(sites, names, command) as job:
        assert wait_until(lambda: all_exist(folder / f"pid-{rank}" for rank in range(size)), ranks.SECONDS)
        time.sleep(moment)
        cut(sites, parts, seconds)
        time.sleep(AFTERWARDS_SECONDS)
        (folder / "over").touch()
        for process in job.processes:
            process.wait(ranks.SECONDS)
    ended: list[Any] = [json.loads((folder / f"became-{rank}").read_text()) for rank in range(size)]
    on = [one for one in ended if "model" in one]
    print(f"{kind}, {parts} for {seconds} s: {len(on)} go on; ", [one for one in ended if "error" in one])
    assert len({one["model"] for one in on}) == 1, ended
    assert all(one["size"] == len(on) for one in on), ended
    for one in ended:
        assert "model" in one or any(words in one["error"] for words in LEFT), one


@pytest.mark.long
@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("number", range(6))
def test_of_two_parts_one_goes_on_at_most(kind: str, number: int, tmp_path: Path, seed: int) -> None:
    drawn = random.Random(f"{kind} {seed + number}")
    size = drawn.choice([4, 5, 6])
    first = drawn.choice([1, 2, size // 2])
    check(tmp_path, kind, size, first, drawn.choice(STOPS_SECONDS), drawn.uniform(0, LATEST_SECONDS))
