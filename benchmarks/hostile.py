"""Connections that mean harm to a relay, wave upon wave, beside sessions that go through it.

Three tenants have a session of 50 Mbit/s each through the relay. Meanwhile another process connects to
it, kind after kind: half-open connections, random bytes, messages of 2 GiB, messages of 256 KiB that
unpack to 256 MiB, and 1,000 calls at a time that stop in the middle of a message. Prints for each kind
how many there were and after what time the slowest was closed, how much the relay's resident memory
grew, and the least rate of the three by what is planned. Exit code 1 if a connection was closed after
more than a second (calls that stall, which are neighbours by then: a second after the 10 s that a silent
neighbour has), if memory grew by more than 1.10 of the transport's quota of 512 MiB, or if a rate is
under 0.99. With --together all kinds come at once, each from a process of its own: on few cores
that measures how the kernel shares them.

    python benchmarks/hostile.py [--kinds half-open stalled] [--together] [--seconds 4] [--json]
"""

import argparse
import contextlib
import json
import multiprocessing
import random
import resource
import selectors
import shlex
import sys
import time
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass

import machine
import sessions as bench
import square
from raw_http2 import RawConnection

MIB = 1 << 20
RATE_BPS = 50e6
OTHERS = 3
WARM_UP_SECONDS = 1.0
SAMPLE_SECONDS = 0.02
PATIENCE_SECONDS = 20.0
MOST_CLOSING_SECONDS = 1.0
SILENCE_SECONDS = 10.0  # GrpcTransportOptions::silence_deadline
LEAST_SHARE = 0.99
QUOTA_BYTES = 512 * MIB  # memory_quota_bytes in include/square/grpc_transport.h
MOST_GROWTH = 1.10
RELAY = "relay"
GIANT_BYTES = (1 << 31) - 1
BOMB_BYTES = 256 * MIB
PAUSE_SECONDS = 0.1  # between waves
OPEN_FILES = 8192


class Attack:
    """One connection, told to go on whenever it may."""

    def __init__(self, address: str, number: int) -> None:
        self.connection = RawConnection(address)
        self.began = time.monotonic()
        with contextlib.suppress(OSError):  # closed already
            self.begin(number)

    def begin(self, number: int) -> None:
        """What it does first."""

    def go_on(self) -> None:
        """What it does for as long as it is not closed."""


class HalfOpen(Attack):
    pass


class RandomBytes(Attack):
    def begin(self, number: int) -> None:
        self.connection.send(random.Random(number).randbytes(1 + number * 131 % 3000))


class Giant(Attack):
    """A message of 2 GiB, as fast as it is taken."""

    _zeros = bytes(4 * MIB)

    def begin(self, number: int) -> None:
        self.connection.greet()
        self.connection.call(f"giant {number}", RELAY)
        self.connection.begin_message(GIANT_BYTES)

    def go_on(self) -> None:
        self.connection.send_data(self._zeros)


class Bomb(Attack):
    """A small message that says that it is compressed, and that it is not large."""

    _packed = b""

    def begin(self, number: int) -> None:
        if not Bomb._packed:
            packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
            Bomb._packed = packer.compress(bytes(BOMB_BYTES)) + packer.flush()
        self._left = memoryview(Bomb._packed)
        self.connection.greet()
        self.connection.call(f"bomb {number}", RELAY, grpc_encoding="gzip")
        self.connection.begin_message(len(self._left), compressed=True)

    def go_on(self) -> None:
        self._left = self._left[self.connection.send_data(bytes(self._left)) :]


class Stalled(Attack):
    """A call whose first message never ends."""

    def begin(self, number: int) -> None:
        self.connection.greet()
        self.connection.call(f"stalled {number}", RELAY)
        self.connection.begin_message(MIB)
        self.connection.send_data(bytes(20_000))


KINDS: dict[str, tuple[type[Attack], int]] = {  # and how many in one wave
    "half-open": (HalfOpen, 50),
    "random": (RandomBytes, 50),
    "giant": (Giant, 2),
    "bomb": (Bomb, 4),
    "stalled": (Stalled, 1000),
}


@dataclass
class Closing:
    connections: int = 0
    slowest_seconds: float = 0.0
    left_open: int = 0

    def add(self, other: "Closing") -> None:
        self.connections += other.connections
        self.slowest_seconds = max(self.slowest_seconds, other.slowest_seconds)
        self.left_open += other.left_open


def run_wave(kind: type[Attack], count: int, address: str, numbers: Callable[[], int]) -> Closing:
    """All of them at once, until the last is closed."""
    closing = Closing(connections=count)
    with selectors.DefaultSelector() as waiting:

        def reap(patience: float) -> None:
            for key, _ in waiting.select(patience):
                attack: Attack = key.data
                if attack.connection.take():
                    continue
                closing.slowest_seconds = max(closing.slowest_seconds, time.monotonic() - attack.began)
                waiting.unregister(attack.connection.socket)
                attack.connection.close()

        for _ in range(count):
            attack = kind(address, numbers())
            waiting.register(attack.connection.socket, selectors.EVENT_READ, attack)
            reap(0)
        give_up = time.monotonic() + PATIENCE_SECONDS
        while waiting.get_map() and time.monotonic() < give_up:
            for key in list(waiting.get_map().values()):
                with contextlib.suppress(OSError):  # the next reap() sees it
                    key.data.go_on()
            reap(SAMPLE_SECONDS)
        for key in list(waiting.get_map().values()):
            key.data.connection.close()
            closing.left_open += 1
    return closing


def attack(kind: str, count: int, address: str, end: float) -> Closing:
    """Wave upon wave until then."""
    total, numbers = Closing(), iter(range(1 << 30))
    while time.monotonic() < end:
        total.add(run_wave(KINDS[kind][0], count, address, lambda: next(numbers)))
        time.sleep(PAUSE_SECONDS)
    return total


def most_closing_seconds(kind: str) -> float:
    """Nobody can tell a neighbour that stalls from one whose way is crowded."""
    return MOST_CLOSING_SECONDS + (SILENCE_SECONDS if kind == "stalled" else 0.0)


@dataclass
class Outcome:
    closings: dict[str, Closing]
    idle_mib: float
    grown_mib: float
    worst_share: float
    cost: dict[str, float | bool]
    is_good: bool = False

    def __post_init__(self) -> None:
        self.is_good = (
            all(
                c.slowest_seconds <= most_closing_seconds(kind) and not c.left_open
                for kind, c in self.closings.items()
            )
            and self.grown_mib * MIB <= MOST_GROWTH * QUOTA_BYTES
            and self.worst_share >= LEAST_SHARE
        )


def measure(counts: dict[str, int], seconds: float) -> Outcome:
    topology = square.Topology()
    names = ("source", RELAY, "sink")
    for name in names:
        topology.add_node(name)
    topology.add_link("source", RELAY, capacity_bps=OTHERS * RATE_BPS)
    topology.add_link(RELAY, "sink", capacity_bps=OTHERS * RATE_BPS)
    size = int(RATE_BPS / bench.BITS * (seconds + 2 * WARM_UP_SECONDS))
    others = [
        bench.Session(number, f"tenant {number}", "source", "sink", size, RATE_BPS / 1e6)
        for number in range(OTHERS)
    ]
    hosts = {name: bench.Host(name) for name in names}
    try:
        scenario = bench.scenario_of(topology, others, "shortest-path")
        with square.Controller(scenario) as controller:
            for name, host in hosts.items():
                host.call("join", name, controller.address, {})
            controller.wait_for_nodes(list(hosts), bench.ANSWER_SECONDS)
            for name in ("source", "sink"):
                hosts[name].call("enrol", others)
            rates = bench.planned_rates(controller.plan(), others)
            address = next(node.address for node in controller.nodes() if node.name == RELAY)
            return besiege(hosts, others, rates, address, counts, seconds)
    finally:
        for host in hosts.values():
            host.close()


def besiege(
    hosts: dict[str, bench.Host],
    others: list[bench.Session],
    rates: dict[int, float],
    address: str,
    counts: dict[str, int],
    seconds: float,
) -> Outcome:
    relay, sink = hosts[RELAY], hosts["sink"]
    numbers = [session.number for session in others]
    with ProcessPoolExecutor(len(counts), multiprocessing.get_context("spawn")) as attackers:
        list(attackers.map(time.sleep, [WARM_UP_SECONDS] * len(counts)))  # each process is there
        before = most = relay.memory_bytes()
        sink.call("receive", numbers)
        begin = hosts["source"].call("send", numbers) + WARM_UP_SECONDS
        end = begin + seconds
        watch = bench.Watch(hosts, "source", "sink", numbers)
        watch.begin(end)
        under_way: dict[str, Future[Closing]] = {
            kind: attackers.submit(attack, kind, count, address, end) for kind, count in counts.items()
        }
        while time.monotonic() < end:
            most = max(most, relay.memory_bytes())
            time.sleep(SAMPLE_SECONDS)
        seen = watch.arrivals()
        closings = {kind: wave.result() for kind, wave in under_way.items()}
    shares = [seen[number].rate_bps(begin, end) / rates[number] for number in numbers]
    return Outcome(closings, before / MIB, (most - before) / MIB, min(shares), watch.cost.figures())


def show(outcome: Outcome) -> None:
    for kind, closing in outcome.closings.items():
        left = f", {closing.left_open} never" if closing.left_open else ""
        print(
            f"{kind}: {closing.connections} connections, the slowest closed after "
            f"{closing.slowest_seconds:.2f} s{left}"
        )
    print(
        f"    the relay grew by {outcome.grown_mib:.1f} MiB over {outcome.idle_mib:.1f} MiB; the others had "
        f"{outcome.worst_share:.4f} of their rate{'' if outcome.is_good else '   MISSED'}; "
        f"{machine.describe(outcome.cost)}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Connections that mean harm, beside sessions that go on.")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--together", action="store_true", help="all kinds at once")
    parser.add_argument("--stalled", type=int, default=1000, help="calls that stall at a time (default 1000)")
    parser.add_argument("--seconds", type=float, default=4.0, help="measured each time (default 4)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, most_files), most_files))
    counts = {kind: options.stalled if kind == "stalled" else KINDS[kind][1] for kind in options.kinds}
    rounds = [counts] if options.together else [{kind: count} for kind, count in counts.items()]
    command, control = shlex.join(["python", *sys.argv]), bench.congestion_control()
    if not options.json:
        print(f"{command}\ncongestion control {control}")
    outcomes = []
    for attackers in rounds:
        outcomes.append(measure(attackers, options.seconds))
        if not options.json:
            show(outcomes[-1])
    if options.json:
        document = {"command": command, "congestion_control": control}
        print(json.dumps(document | {"results": [asdict(outcome) for outcome in outcomes]}))
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
