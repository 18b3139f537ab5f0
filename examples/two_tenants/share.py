"""Two jobs of two tenants on one link: 2:1 while both run, all of it for the one that stays.

    sudo .venv/bin/python examples/two_tenants/share.py
    unshare --user --map-root-user .venv/bin/python examples/two_tenants/share.py --seconds 4

Each of the two sites of sites.toml is a network namespace, the link between them is shaped by the kernel.
At each site a `square node --gateway` serves both tenants; job.py runs once for each tenant, a rank at each
site. One controller knows the weights. First both jobs run, then silver alone. Needs Linux, iproute2, torch.
"""

import argparse
import json
import math
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import square
from square.errors import DeadlineExceededError, FailedPreconditionError, SquareError, UnavailableError
from square.run.ranks import STORE_PORT, Ranks
from square.run.sites import Sites

FOLDER = Path(__file__).resolve().parent
TENANTS = ("gold", "silver")
START_SECONDS = 120.0
STOP_SECONDS = 30.0
# After a job has come or gone, until its rate counts.
SETTLING_SECONDS = 1.0
POLL_SECONDS = 0.05
INTERRUPTED = 130


class Job:
    """The job of one tenant, and what its first rank has reported."""

    def __init__(self, tenant: str, sites: Sites, folder: Path) -> None:
        self.tenant = tenant
        self._report = folder / f"{tenant}.jsonl"
        self.ranks = Ranks(
            sites,
            sites.names,
            [str(FOLDER / "job.py"), "--report", str(self._report)],
            name=tenant,
            port=STORE_PORT + TENANTS.index(tenant),
            # Without a controller's address: the gateway is all that a tenant needs to know.
            environment={"SQUARE_TENANT": tenant},
            at={site: {"SQUARE_GATEWAY": gateway_of(site, folder)} for site in sites.names},
            stdout=sys.stderr,
        )

    def rounds(self) -> list[tuple[float, int]]:
        """When each round ended, and how many bytes were added up until then."""
        if not self._report.exists():
            return []
        whole, _, _ = self._report.read_text(encoding="ascii").rpartition("\n")
        return [(line["at"], line["bytes"]) for line in map(json.loads, whole.splitlines())]

    def rate_bps(self, begin: float, end: float) -> float:
        """Of the rounds that ended in between."""
        inside = [one for one in self.rounds() if begin <= one[0] <= end]
        if len(inside) < 2:
            raise UnavailableError(f"{self.tenant}: not two rounds in {end - begin:.1f} s; ask for more")
        (first, before), (last, after) = inside[0], inside[-1]
        return 8 * (after - before) / (last - first)

    def wait_for_first_round(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self.rounds():
            self.ranks.is_running()  # raises where a rank has failed
            if time.monotonic() > deadline:
                raise DeadlineExceededError(f"{self.tenant}: no round has ended within {START_SECONDS:g} s")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        self.ranks.signal(signal.SIGTERM)
        self.ranks.wait(STOP_SECONDS)


def gateway_of(site: str, folder: Path) -> str:
    """Where the node of the site serves the processes of its host."""
    return str(folder / f"{site}.sock")


def start_gateway(
    site: str, sites: Sites, controller: square.Controller, folder: Path
) -> subprocess.Popen[str]:
    """`square node --gateway` at a site; returns when it serves. What it logs is in the folder."""
    command = [
        sys.executable,
        "-m",
        "square",
        "node",
        "--json",
        "--name",
        site,
        "--gateway",
        gateway_of(site, folder),
    ]
    command += ["--controller", controller.address, "--bind", f"{sites.address_of(site)}:0"]
    command += ["--identity", sites.identity("node", site)]
    messages = folder / f"{site}.log"
    with messages.open("w") as log:
        node = sites.start(site, command, stdout=subprocess.PIPE, stderr=log)
    assert node.stdout is not None
    if not node.stdout.readline():
        raise UnavailableError(f"the node of {site} ended: {messages.read_text().strip()}")
    return node


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def watch(jobs: list[Job], seconds: float) -> tuple[float, float]:
    """Lets them run; returns from when to when. Raises where a rank fails."""
    begin = time.monotonic() + SETTLING_SECONDS
    while time.monotonic() < begin + seconds:
        for job in jobs:
            job.ranks.is_running()
        time.sleep(POLL_SECONDS)
    return begin, begin + seconds


def measure(seconds: float) -> dict[str, Any]:
    scenario = square.Scenario.read(FOLDER / "sites.toml")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sites = stack.enter_context(Sites(scenario.topology))
        controller = stack.enter_context(sites.controller(scenario))
        for site in sites.names:
            stack.callback(end, start_gateway(site, sites, controller, folder))
        jobs = [Job(tenant, sites, folder) for tenant in TENANTS]
        for job in jobs:
            stack.enter_context(job.ranks)
        gold, silver = jobs
        for job in jobs:
            job.wait_for_first_round()
        together = watch(jobs, seconds)
        rates = {job.tenant: job.rate_bps(*together) / 1e6 for job in jobs}
        gold.stop()
        alone = watch([silver], seconds)
        alone_mbps = silver.rate_bps(*alone) / 1e6
        silver.stop()
    return {
        "capacity_mbps": scenario.topology.links[0].capacity_bps / 1e6,
        "weights": {tenant.name: tenant.weight for tenant in scenario.tenants},
        "together_mbps": rates,
        "ratio": rates["gold"] / rates["silver"],
        "silver_alone_mbps": alone_mbps,
    }


def print_table(figures: dict[str, Any]) -> None:
    print(f"a link of {figures['capacity_mbps']:g} Mbit/s each way; all-reduces between its ends")
    for tenant, mbps in figures["together_mbps"].items():
        print(f"  {tenant:<7} weight {figures['weights'][tenant]:g}  {mbps:6.1f} Mbit/s")
    print(f"  ratio {figures['ratio']:.2f}")
    print(f"gold has stopped:\n  silver alone     {figures['silver_alone_mbps']:6.1f} Mbit/s")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0], epilog="Needs root, or `unshare --user --map-root-user`."
    )
    parser.add_argument("--seconds", type=float, default=8.0, metavar="S", help="of each phase (default 8)")
    parser.add_argument("--json", action="store_true", help="the figures as JSON and nothing else")
    options = parser.parse_args()
    if not (math.isfinite(options.seconds) and options.seconds > 0):
        parser.error("--seconds must be above 0")
    try:
        if find_spec("torch") is None:
            raise FailedPreconditionError('the jobs need torch: pip install "square[torch]"')
        figures = measure(options.seconds)
    except SquareError as error:
        print(f"share.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    if options.json:
        print(json.dumps({"command": shlex.join(sys.orig_argv), **figures}, indent=2))
    else:
        print_table(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
