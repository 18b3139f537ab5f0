"""A worker in a process: `training_process.py MASTER NAME CHUNKS`.

It trains on chunks that each leave a mark of their own in the parameters, so that an oracle sees what
counted, and how often. SIGUSR1 spoils its next push. It prints a line of JSON at the end.
"""

import faulthandler
import json
import signal
import sys
import time

import numpy as np
import square.ps

MARK = 0.25
STEP_SECONDS = 0.02
STEPS_BETWEEN_PUSHES = 5


class Training:
    """The parameters: one element for each chunk, and some that nothing touches."""

    def __init__(self, master: str, name: str, chunks: int) -> None:
        self.model = {"marks": np.zeros(chunks, np.float32), "rest": np.ones(1000, np.float32)}
        self.worker = square.ps.Worker(self.model, master=master, name=name, timeout=60)
        self.is_spoilt = False
        self.longest_stop = 0.0
        self.outcomes: dict[str, int] = {}
        self._steps = 0
        signal.signal(signal.SIGUSR1, self._spoil)

    def _spoil(self, *_: object) -> None:
        self.is_spoilt = True

    def run(self) -> None:
        for chunk in self.worker.chunks(timeout=60):
            self.step()
            self.model["marks"][chunk] -= MARK
            self.worker.consumed(1, [chunk])
            if self._steps % STEPS_BETWEEN_PUSHES == 0:
                self.sync()
        self.worker.leave()

    def step(self) -> None:
        self._steps += 1
        time.sleep(STEP_SECONDS)

    def sync(self) -> None:
        kept = self.model["rest"].copy()
        if self.is_spoilt:
            self.is_spoilt = False
            self.model["rest"][7] = np.nan
        came = self.worker.sync()
        self.longest_stop = max(self.longest_stop, came.seconds)
        self.outcomes[came.outcome] = self.outcomes.get(came.outcome, 0) + 1
        if came.outcome in ("skipped", "goes on"):
            self.model["rest"][:] = kept
        assert np.isfinite(self.model["rest"]).all() or came.outcome == "goes on"


def main() -> None:
    faulthandler.enable()
    master, name, chunks = sys.argv[1], sys.argv[2], int(sys.argv[3])
    training = Training(master, name, chunks)
    training.run()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # it would kill an interpreter that ends
    print(json.dumps({"longest_stop": training.longest_stop, "outcomes": training.outcomes}), flush=True)


main()
