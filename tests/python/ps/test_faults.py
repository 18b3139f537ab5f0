"""Processes of parameter servers that are killed, paused and spoilt at drawn moments.

SQUARE_PS_SCHEDULES says how many schedules, SQUARE_SEED runs one again. Each takes some seconds: what is
tested is what real processes leave behind, and hundreds more run in the simulation (tests/cpp/ps).
"""

import os
import random
import signal
import time
from pathlib import Path

import pytest
from ps_processes import GRACE, Cluster, audit

SERVERS, LATE_SERVERS, WORKERS, CHUNKS = 2, 1, 3, 400  # enough for the faults to come while they train
SCHEDULES = int(os.environ.get("SQUARE_PS_SCHEDULES", "20" if "SQUARE_LONG" in os.environ else "4"))
SEEDS = [int(os.environ["SQUARE_SEED"])] if "SQUARE_SEED" in os.environ else list(range(1, SCHEDULES + 1))
# Beside the grace period: what nobody that lives may stop for.
LONGEST_STOP = 2.0
# Two cores run seven processes, and some of them just begin: the simulation has the bound without that.
BUSY_SECONDS = 4.0


class Faults:
    """Drawn from a seed; each is taken back after a while."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.random = random.Random(seed)
        self.log: list[str] = []
        self.paused: dict[str, float] = {}

    def strike(self) -> None:
        servers = [f"server{i}" for i in range(SERVERS + LATE_SERVERS)]
        members = ["master", *servers, *(f"worker{i}" for i in range(WORKERS))]
        name = self.random.choice(members)
        kind = self.random.choice(["kill", "kill", "pause", "spoil"])
        seconds = self.random.uniform(0.2, 2.5)
        if kind == "spoil":
            name = f"worker{self.random.randrange(WORKERS)}"
        self.log.append(f"{kind} {name} {seconds:.2f} s")
        if kind == "kill":
            self.cluster.kill(name)
            time.sleep(seconds / 2)
            self.cluster.start(name)
        elif kind == "pause":
            self.cluster.signal(name, signal.SIGSTOP)
            time.sleep(seconds)
            self.cluster.signal(name, signal.SIGCONT)
            self.paused[name] = self.paused.get(name, 0.0) + seconds
        else:
            self.cluster.signal(name, signal.SIGUSR1)


@pytest.mark.parametrize("seed", SEEDS)
def test_faults_lose_nothing(tmp_path: Path, seed: int) -> None:
    with Cluster(tmp_path, servers=SERVERS, chunks=CHUNKS) as cluster:
        cluster.start("master")
        for index in range(SERVERS):
            cluster.start(f"server{index}")
        for index in range(WORKERS):
            cluster.start(f"worker{index}")
        faults = Faults(cluster, seed)
        faults.random.random()
        cluster.wait_until_training(60)
        for index in range(LATE_SERVERS):
            cluster.start(f"server{SERVERS + index}")
        for _ in range(4):
            time.sleep(faults.random.uniform(0.1, 0.8))
            faults.strike()
        print(f"SQUARE_SEED={seed}: {faults.log}")
        cluster.wait_until_done(90)
        reports = cluster.reports()
        audit(cluster.versions(), CHUNKS)
        for name, report in reports.items():
            allowed = LONGEST_STOP + BUSY_SECONDS + GRACE + faults.paused.get(name, 0.0)
            assert report["longest_stop"] < allowed, (name, report, faults.log)
