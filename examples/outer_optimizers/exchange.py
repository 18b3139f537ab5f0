"""Averages over a real group of square, its members all in this process: what a compression loses is lost."""

import threading
from typing import Any

import numpy as np
import square
from model import Floats

LOOPBACK_BPS = 2e9
START_SECONDS = 30.0


class Group:
    """One member a cluster. Every member keeps its own error feedback."""

    def __init__(self, members: int, compression: str) -> None:
        names = [f"cluster{number}" for number in range(members)]
        scenario = square.Scenario(square.Topology.full_mesh(names, capacity_bps=LOOPBACK_BPS))
        scenario.policy = square.Policy("exact")
        self.compression = square.Compression.parse(compression)
        self._feedback = [square.ErrorFeedback() for _ in names]
        self._controller: Any = square.Controller(scenario)
        self._nodes = [square.Node(name, self._controller.address) for name in names]
        self._controller.wait_for_nodes(names, timeout=START_SECONDS)
        self._group = self._on_all(
            lambda rank, _: square.Communicator(self._nodes[rank], "outer", "example", names, rank)
        )
        self.sent_bytes = 0  # that stood for what a member gave, all calls together

    def average(self, values: list[Floats]) -> Floats:
        buffers = [np.array(one) for one in values]
        reports = self._on_all(self._reduce, buffers)
        self.sent_bytes += reports[0].bytes_after
        return buffers[0]

    def _reduce(self, rank: int, buffer: Any) -> Any:
        keeps = self.compression.error_feedback
        work = self._group[rank].all_reduce_async(
            buffer,
            op="average",
            compression=self.compression,
            feedback=self._feedback[rank] if keeps else None,
        )
        work.wait()
        return work.compression_report

    def _on_all(self, act: Any, given: list[Any] | None = None) -> list[Any]:
        results: list[Any] = [None] * len(self._nodes)

        def member(rank: int) -> None:
            try:
                results[rank] = act(rank, given[rank] if given else None)
            except Exception as error:
                results[rank] = error

        threads = [threading.Thread(target=member, args=(rank,)) for rank in range(len(results))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    def close(self) -> None:
        self._group = []
        for node in self._nodes:
            node.stop()
        self._controller.stop()
