"""Members of one group, each in a process at a site of its own; see tests/netns/calling.py."""

import itertools
import json
import subprocess
import sys
from collections.abc import Sequence

import square
from commands import COMMAND
from conftest import REPOSITORY
from square.run.sites import Sites

MEMBER = REPOSITORY / "tests" / "netns" / "calling.py"
END_SECONDS = 60.0


class SiteMembers:
    """One member at each site in the order of ranks, relays at others, and their controller."""

    def __init__(
        self,
        sites: Sites,
        names: list[str],
        scenario: square.Scenario | None,
        op: str,
        floats: int,
        relays: Sequence[str] = (),
    ) -> None:
        self.controller = sites.controller(scenario)
        self._relays = [self._start_relay(sites, name) for name in relays]
        self._members = [
            sites.start(
                name,
                [sys.executable, "-P", str(MEMBER), str(rank), op, str(floats), *names],
                sites.environment(name, self.controller),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for rank, name in enumerate(names)
        ]

    def _start_relay(self, sites: Sites, name: str) -> subprocess.Popen[str]:
        where = ["--controller", self.controller.address, "--bind", f"{sites.address_of(name)}:0"]
        command = [*COMMAND, "node", "--name", name, *where, "--identity", sites.identity("node", name)]
        return sites.start(name, command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def uses(self, tail: str, head: str) -> bool:
        """Whether the plan that is active has anything on the link."""
        plan = self.controller.plan()
        if plan is None:
            return False
        sessions = json.loads(plan.to_json())["sessions"]
        return any([tail, head] in stream["links"] for session in sessions for stream in session["streams"])

    def planned_bps(self, tail: str, head: str) -> float:
        """What the plan that is active takes the link to carry; 0 where it goes around it."""
        plan = self.controller.plan()
        capacities = (
            link.capacity_bps for link in plan.links if (link.from_node, link.to_node) == (tail, head)
        )
        return next(capacities, 0.0)

    def say_end(self) -> None:
        """The operation under way is the last."""
        print("end", file=self._members[0].stdin, flush=True)

    def wait(self) -> list[tuple[float, float]]:
        """Until all have said that it is over: when each operation of the first member began, and how long it
        took. Members stay."""
        lines = [_lines_until_over(member) for member in self._members]
        assert all(lines), [member.poll() for member in self._members]
        return [(float(begun), float(took)) for begun, took in map(str.split, lines[0])]

    def end(self) -> None:
        """No member has failed."""
        try:
            rests = [member.communicate(timeout=END_SECONDS) for member in self._members]
        finally:
            for process in (*self._members, *self._relays):
                process.kill()
                process.wait()
            self.controller.stop()
        for member, (_, errors) in zip(self._members, rests, strict=True):
            assert member.returncode == 0, errors


def _lines_until_over(member: subprocess.Popen[str]) -> list[str]:
    """What it says before that; nothing where it ends without."""
    assert member.stdout is not None
    return list(itertools.takewhile(lambda line: line != "over\n", member.stdout))
