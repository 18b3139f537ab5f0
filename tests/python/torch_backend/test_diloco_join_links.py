"""How fast who joins takes 500 MB from four members, over links that the kernel shapes.

    sudo .venv/bin/python tests/python/torch_backend/test_diloco_join_links.py    # says how fast

The links are uneven, and all members are asked at once. Held against what all links into the site of who
joins carry together.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

MEMBERS = ["a", "b", "c", "d"]
JOINER = "e"
MBPS = [48.0, 36.0, 24.0, 12.0]  # to who joins
AMONG_MBPS = 60.0
SIZE_BYTES = 500_000_000
LEAST = 0.85
LIMIT = timedelta(minutes=10)


def train(folder: Path, invited: str, size_bytes: int) -> None:
    import torch
    from square.diloco import DiLoCo, agreement, handover
    from torch import distributed as dist

    agreement.start_alike = lambda *_, **__: None  # all have zeros
    small, large = torch.nn.Linear(4, 4), torch.nn.ParameterList([torch.zeros(size_bytes // 8)])
    model = torch.nn.ModuleList([small, large])
    torch.nn.init.zeros_(small.weight)
    torch.nn.init.zeros_(small.bias)
    inner = torch.optim.SGD(small.parameters(), lr=0.1)
    inner.add_param_group({"params": list(large.parameters())})
    fetch = handover.Intake.fetch

    def timed(intake: Any, group: Any, sources: Any) -> None:
        begun = time.monotonic()
        fetch(intake, group, sources)
        seconds = time.monotonic() - begun
        rates = [round(8e-6 * one / seconds, 2) for one in intake.received_bytes.values()]
        said = {"seconds": seconds, "mbps": rates, "bytes": sum(intake.received_bytes.values())}
        (folder / "partial").write_text(json.dumps(said))
        (folder / "partial").rename(folder / "result")

    handover.Intake.fetch = timed
    admit = DiLoCo._admit

    def timed_admit(diloco: Any) -> None:
        begun = time.monotonic()
        admit(diloco)
        if os.environ.get("RANK") == "0":
            (folder / "pause").write_text(str(time.monotonic() - begun))

    DiLoCo._admit = timed_admit
    if not invited:
        dist.init_process_group("square")
    options: dict[str, Any] = {"join": "peers", "invitation": invited, "timeout": LIMIT}
    # The large fragment would be exchanged long after the end.
    with DiLoCo(model, inner, sync_every=4000, fragments=[small, large], **options) as diloco:
        if os.environ.get("RANK") == "0":
            (folder / "invitation").write_text(diloco.invitation())
        for step in range(4000):
            if (folder / "result").exists() and step > 2000:
                break
            while step == 1998 and os.environ.get("RANK") == "0" and not diloco._peers.waiting():
                time.sleep(0.1)
            small.weight.grad = torch.ones_like(small.weight)
            inner.step()
            time.sleep(0.02 if step > 2000 else 0.005)
    os._exit(0)


def measure(size_bytes: int = SIZE_BYTES) -> dict[str, Any]:
    import square
    from square.planning import with_policy
    from square.run.ranks import Ranks
    from square.run.sites import Sites

    topology = square.Topology()
    for name in (*MEMBERS, JOINER):
        topology.add_node(name)
    for one in MEMBERS:
        for other in MEMBERS:
            if one != other:
                topology.add_link(one, other, AMONG_MBPS * 1e6)
    for one, mbps in zip(MEMBERS, MBPS, strict=True):
        topology.add_link(one, JOINER, mbps * 1e6)
        topology.add_link(JOINER, one, mbps * 1e6)
    scenario = with_policy(square.Scenario(topology), policy="exact")
    with tempfile.TemporaryDirectory() as place, Sites(topology) as sites:
        folder, script = Path(place), [str(Path(__file__)), place, str(size_bytes)]
        with (
            sites.controller(scenario) as controller,
            Ranks(sites, MEMBERS, [*script, ""], controller, stdout=sys.stderr) as members,
        ):
            wait_for(folder / "invitation", members)
            invited = (folder / "invitation").read_text()
            environment = sites.environment(JOINER, controller) | {"OMP_NUM_THREADS": "1"}
            command = [sys.executable, *script, invited]
            joiner = sites.start(JOINER, command, environment, stdout=sys.stderr)
            try:
                wait_for(folder / "result", members)
            finally:
                joiner.kill()
                joiner.wait()
            said: dict[str, Any] = json.loads((folder / "result").read_text())
            said["pause_seconds"] = float((folder / "pause").read_text())
    said["of_all_mbps"] = sum(MBPS)
    said["part"] = 8e-6 * said["bytes"] / said["seconds"] / said["of_all_mbps"]
    return said


def wait_for(path: Path, members: Any) -> None:
    end = time.monotonic() + LIMIT.total_seconds()
    while not path.exists():
        members.is_running()
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_500_mb_come_at_most_of_what_the_links_of_all_members_carry() -> None:
    result = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, check=True, timeout=1100
    )
    assert json.loads(result.stdout)["part"] >= LEAST


if __name__ == "__main__":
    if len(sys.argv) > 3:
        train(Path(sys.argv[1]), sys.argv[3], int(sys.argv[2]))
    else:
        print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else SIZE_BYTES)))
