"""Training with every kind of parallelism gives what it gives on Gloo."""

from typing import Any

import pytest
import ranks
import torch
import workloads

SIZE = 4
NAMES = [workload.__name__ for workload in workloads.ALL]


@pytest.fixture(scope="module")
def results() -> dict[str, list[dict[str, Any]]]:
    """By backend what every rank has of every workload."""
    environment = {"GLOO_SOCKET_IFNAME": "lo"}
    return {
        backend: ranks.run(workloads.run_all, SIZE, backend=backend, environment=environment)
        for backend in ("gloo", "square")
    }


@pytest.mark.parametrize("name", NAMES)
def test_results_are_those_of_gloo(results: dict[str, list[dict[str, Any]]], name: str) -> None:
    """Within the rounding of float32: the order of additions is another one."""
    for gloo, square in zip(results["gloo"], results["square"], strict=True):
        torch.testing.assert_close(torch.tensor(square[name]), torch.tensor(gloo[name]))


@pytest.mark.parametrize("name", NAMES)
def test_all_ranks_have_the_same(results: dict[str, list[dict[str, Any]]], name: str) -> None:
    """To the last bit."""
    assert all(of_rank[name] == results["square"][0][name] for of_rank in results["square"])
