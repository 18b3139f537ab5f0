"""The ranks of a job of torch.distributed, one at each site, started as torchrun starts those of one host.

Needs no torch itself: ranks find one another by the environment.
"""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from signal import Signals
from typing import Any, Self

from square._core import Controller
from square.errors import AbortedError, DeadlineExceededError
from square.run.sites import Sites

STORE_PORT = 29500
# After one rank has failed, the others may say what they saw of it.
AFTERMATH_SECONDS = 5.0
_POLL_SECONDS = 0.05


class Ranks:
    """The processes of one job, as a context: none is left when it ends."""

    def __init__(
        self,
        sites: Sites,
        members: Sequence[str],
        script: Sequence[str],
        controller: Controller | None = None,
        *,
        name: str = "job",
        port: int = STORE_PORT,
        environment: dict[str, str] | None = None,
        at: Mapping[str, dict[str, str]] | None = None,
        stdout: Any = None,
    ) -> None:
        """Starts ``script``, a Python file and its arguments, at every site in ``members``, in rank order.

        The first rank's store listens on ``port``: jobs that run at once need one each. Ranks get
        ``environment`` on top of what the site and the job say, then those of their site in ``at``, and
        ``stdout`` for theirs.
        """
        self._name = name
        self._members = list(members)
        self.processes: list[subprocess.Popen[str]] = []
        job = {
            "MASTER_ADDR": sites.address_of(members[0]),
            "MASTER_PORT": str(port),
            "WORLD_SIZE": str(len(members)),
            "LOCAL_WORLD_SIZE": "1",
            "LOCAL_RANK": "0",
            # As torchrun does: all ranks share this machine's cores.
            "OMP_NUM_THREADS": "1",
            # torch's store warns of every address that has no name, and here none has.
            "TORCH_CPP_LOG_LEVEL": "ERROR",
        }
        try:
            for rank, site in enumerate(members):
                own = sites.environment(site, controller) | job | {"RANK": str(rank)} | (environment or {})
                own |= (at or {}).get(site, {})
                command = [sys.executable, *script]
                self.processes.append(sites.start(site, command, own, stdout=stdout))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_running(self) -> bool:
        """Raises ``AbortedError`` where a rank has failed; others get AFTERMATH_SECONDS to say so, too."""
        codes = [process.poll() for process in self.processes]
        if any(codes):
            rank = next(rank for rank, code in enumerate(codes) if code)
            self._wait_all(time.monotonic() + AFTERMATH_SECONDS)
            raise AbortedError(
                f"{self._name}: rank {rank} at {self._members[rank]} {_how(codes[rank] or 0)}; its messages "
                "are above"
            )
        return None in codes

    def wait(self, timeout: float) -> None:
        """Until all have ended well, ``timeout`` seconds at most.

        Raises as is_running does, or ``DeadlineExceededError``.
        """
        deadline = time.monotonic() + timeout
        while self.is_running():
            if time.monotonic() > deadline:
                raise DeadlineExceededError(f"{self._name}: its ranks have not ended within {timeout:g} s")
            time.sleep(_POLL_SECONDS)

    def signal(self, number: Signals) -> None:
        """To every rank."""
        for process in self.processes:
            process.send_signal(number)

    def close(self) -> None:
        """Kills what still runs and waits for it."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    def _wait_all(self, deadline: float) -> None:
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))


def _how(code: int) -> str:
    return f"was killed by {Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
