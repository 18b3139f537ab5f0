"""torchft's process group on square, for its Manager.

    manager = torchft.Manager(pg=ProcessGroupSquare(timeout=timedelta(seconds=30)), ...)

Needs torchft.
"""

from datetime import timedelta
from typing import Any

from torchft.process_group import ProcessGroupWrapper

from square.torch.calls import Calls
from square.torch.options import Options
from square.torch.process_group import ProcessGroup


class ProcessGroupSquare(ProcessGroupWrapper):
    """A group of square that the Manager makes anew for each quorum.

    `timeout` is of every operation and of the meeting; `options` are as for init_process_group.
    """

    def __init__(self, timeout: timedelta = timedelta(seconds=60), options: Options | None = None) -> None:
        super().__init__(timeout)
        self._options = options

    def _create_pg(self, store: Any, rank: int, world_size: int) -> ProcessGroup:
        name = f"torchft_quorum_{self._quorum_id}"
        calls = Calls(store, rank, world_size, self._timeout, name, self._options)
        return ProcessGroup(store, rank, world_size, calls)

    def getBackendName(self) -> str:  # noqa: N802
        return "torchft-square"
