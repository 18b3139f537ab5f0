"""An operation of torch.distributed over an emulated overlay, by a rank at each site."""

import json
import statistics
from importlib.util import find_spec
from pathlib import Path

from square._core import Policy, Scenario
from square.errors import DataLossError, FailedPreconditionError
from square.run.ranks import Ranks
from square.run.sites import Sites
from square.temporary import temporary_folder

ROUNDS = 3
FLOAT_BYTES = 4
TIMEOUT_SECONDS = 600.0


def check_torch() -> None:
    """Raises ``FailedPreconditionError``."""
    if find_spec("torch") is None:
        raise FailedPreconditionError('the figure gloo needs torch: pip install "square[torch]"')


def run(scenario: Scenario, backend: str, operation: str) -> float:
    """Seconds of the rank that took longest, in the median of ROUNDS. Blocks.

    Raises ``DataLossError`` for a wrong result, ``AbortedError`` where a rank failed, what Sites raise."""
    check_torch()
    members = [node.name for node in scenario.topology.nodes]
    (wish,) = scenario.collectives
    served = Scenario(scenario.topology, Policy("exact"), name="sites")
    with temporary_folder("square-ranks-") as folder, Sites(scenario.topology) as sites:
        script = ["-P", "-m", "square.bench.torch_rank", backend, operation]
        script += [str(wish.size_bytes // FLOAT_BYTES), str(ROUNDS), folder]
        with sites.controller(served) as controller, Ranks(sites, members, script, controller) as ranks:
            ranks.wait(TIMEOUT_SECONDS)
        answers = [json.loads((Path(folder) / str(rank)).read_text()) for rank in range(len(members))]
    if not all(answer["is_right"] for answer in answers):
        raise DataLossError(f"{operation} over {backend} gave a wrong result")
    rounds: list[float] = [max(each) for each in zip(*(a["seconds"] for a in answers), strict=True)]
    return statistics.median(rounds)
