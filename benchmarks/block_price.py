"""What a block costs: CPU microseconds at its source, at a relay and at its destination.

A line of three processes on loopback carries one stream alone (100 blocks a second), many of them (under
load), and one that no pace holds (as fast as its windows let it), in blocks of 8 KiB, 64 KiB and 1 MiB.
Beside it bare gRPC sends as many messages of the same size at the same times, those of a tick together, over
three processes of its own, in turns of a few seconds. Then 30 streams of 6.5 Mbit/s over 5 links of a node,
100 blocks of 8 KiB a second each, in operations of 2 s: that node as source, relay and destination.

What an idle node costs is measured first and taken off; it is printed as the part of a core. An idle node may
take 0.4% of a core, and a block, alone and under load, 1.5 times what bare gRPC takes, or the exit code is 1.
The unpaced stream is printed, not judged: its windows are for 100 blocks a second, and bare gRPC has none.
--other PYTHON does the same with the package of another tree's interpreter, in turn, and compares.

    python benchmarks/block_price.py [--quick] [--other PYTHON] [--json]
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import machine
import sessions as bench
import square

KIB = 1 << 10
SIZES = (8 * KIB, 64 * KIB, KIB * KIB)
BLOCKS_PER_SECOND = 100
# Longer operations get larger blocks: so many of the planned size, several operations at once.
BLOCKS_PER_OPERATION = 128
OPERATIONS_AT_ONCE = 4
LOAD_STREAMS = {8 * KIB: 100, 64 * KIB: 40, KIB * KIB: 8}
UNPACED_BLOCKS = {8 * KIB: 65536, 64 * KIB: 16384, KIB * KIB: 2048}
TICK_SECONDS = 0.004  # what falls due within it goes out together
STREAMS = 30
LINKS = 5
OPERATION_SECONDS = 2.0
MOST_RATIO = 1.5
MOST_IDLE = 0.004
SETTLE_SECONDS = 1.0
ROUNDS = (
    4  # ours and bare gRPC in turn: what a wake-up costs changes on a machine from one second to the next
)
ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build" / "dev" / "benchmarks" / "bare_grpc"


class Priced(bench.Server):
    """A host that plays several operations at once and says what CPU time went by."""

    def usage(self) -> float:
        return time.process_time()

    def prepare(self) -> None:
        """Buffers whose pages are there."""
        self.playing: deque[Any] = deque()
        self.data = {
            (number, rank): bytearray(b"\x01" * self.sessions[number].size_bytes)
            for number, rank in self.communicators
        }

    def play(self, numbers: Sequence[int], rank: int, operations: int) -> None:
        """Begins so many operations of each session in which this rank lives here, some of them at first."""
        self.left = operations - min(operations, OPERATIONS_AT_ONCE)
        self.members = [(self.communicators[n, rank], self.data[n, rank]) for n in numbers]
        for _ in range(operations - self.left):
            self._post()

    def _post(self) -> None:
        for member, data in self.members:
            self.playing.append(member.broadcast_async(data, 0, bench.CALL_SECONDS))

    def finish(self) -> float:
        """When all that was begun last has ended, by the machine's monotonic clock."""
        while self.playing:
            for _ in self.members:
                self.playing.popleft().wait()
            if self.left > 0:
                self.left -= 1
                self._post()
        return time.monotonic()

    def blocks(self) -> tuple[int, int]:
        """Sent and received by the nodes here, blocks and bytes of them."""
        all_ = [node.statistics() for node in self.nodes.values()]
        blocks = sum(one["blocks_sent"] + one["blocks_received"] for one in all_)
        return blocks, sum(one["bytes_sent"] + one["bytes_received"] for one in all_)


class Bare:
    """A process of bare_grpc."""

    def __init__(self, program: Path, role: str, *addresses: str, identity: str | None = None) -> None:
        self._process = subprocess.Popen(
            [program, role, *addresses],
            env=os.environ | ({"BARE_IDENTITY": identity} if identity else {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if role != "source":
            self.address = f"127.0.0.1:{int(self._read()[0])}"

    def _read(self) -> list[str]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("bare_grpc has ended")
        return line.split()

    def ask(self, line: str) -> list[str]:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._read()

    def usage(self) -> float:
        return float(self.ask("usage")[0])

    def received(self) -> int:
        return int(self.ask("usage")[1])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@dataclass
class Price:
    """Of one case at one place."""

    case: str
    place: str
    block_bytes: float
    blocks: float  # that passed this place
    seconds: float
    cpu_microseconds: float  # for each block, what an idle node takes not counted
    cpu_seconds_per_gb: float
    idle: float  # part of a core
    bare_microseconds: float | None = None
    busy: float = 0.0

    @property
    def ratio(self) -> float | None:
        return self.cpu_microseconds / self.bare_microseconds if self.bare_microseconds else None

    def is_good(self) -> bool:
        judged = None if self.case.endswith("unpaced") else self.ratio
        return self.idle <= MOST_IDLE and (judged is None or judged <= MOST_RATIO)


@dataclass
class Layout:
    """Nodes by process, what sends to what, and whose price counts by what it is called."""

    hosts: dict[str, list[str]]
    links: list[tuple[str, str]]
    capacity_bps: float
    sessions: list[bench.Session]
    places: dict[str, str]  # host -> place
    paced: bool = True
    policy: str = "shortest-path"


def line(size_bytes: int, streams: int = 1, *, paced: bool = True) -> Layout:
    rate = 8.0 * size_bytes * BLOCKS_PER_SECOND
    sessions = [
        bench.Session(i, "tenant", "source", "destination", BLOCKS_PER_OPERATION * size_bytes)
        for i in range(streams)
    ]
    names = ["source", "relay", "destination"]
    links = [("source", "relay"), ("relay", "destination")]
    return Layout({n: [n] for n in names}, links, rate * streams, sessions, {n: n for n in names}, paced)


def star(place: str) -> Layout:
    """A node with LINKS neighbours in two other processes, through which STREAMS sessions go."""
    rate = 8.0 * SIZES[0] * BLOCKS_PER_SECOND
    before = [f"before{i}" for i in range(LINKS)] if place != "source" else []
    behind = [f"behind{i}" for i in range(LINKS)] if place != "destination" else []
    links = [(name, "hub") for name in before] + [("hub", name) for name in behind]
    size = int(rate / 8 * OPERATION_SECONDS)
    sessions = [
        bench.Session(
            i, "tenant", before[i % LINKS] if before else "hub", behind[i % LINKS] if behind else "hub", size
        )
        for i in range(STREAMS)
    ]
    hosts = {"before": before, "hub": ["hub"], "behind": behind}
    hosts = {name: nodes for name, nodes in hosts.items() if nodes}
    return Layout(hosts, links, rate * STREAMS / LINKS, sessions, {"hub": place})


@dataclass
class Running:
    """The processes of a layout, with its sessions enrolled."""

    layout: Layout
    hosts: dict[str, bench.Host]
    idle: dict[str, float] = field(default_factory=dict)

    def usage(self) -> dict[str, float]:
        return {name: self.hosts[name].call("usage") for name in self.layout.places}

    def blocks(self) -> dict[str, tuple[int, int]]:
        return {name: self.hosts[name].call("blocks") for name in self.layout.places}

    def measure_idle(self, seconds: float) -> None:
        time.sleep(SETTLE_SECONDS)
        began, before = time.monotonic(), self.usage()
        time.sleep(seconds)
        after, took = self.usage(), time.monotonic() - began
        self.idle = {name: (after[name] - before[name]) / took for name in before}

    def play(self, case: str, operations: int) -> list[Price]:
        numbers = {rank: self._numbers(rank) for rank in (0, 1)}
        blocks, before = self.blocks(), self.usage()
        with machine.Usage() as machine_usage:
            for name, here in numbers[1].items():
                self.hosts[name].call("play", here, 1, operations)
            began = time.monotonic()
            for name, here in numbers[0].items():
                self.hosts[name].call("play", here, 0, operations)
            both = [*numbers[1], *numbers[0]]
            for name in both:
                self.hosts[name].begin("finish")
            ended = {name: self.hosts[name].answer() for name in both}
            seconds = max(ended[name] for name in numbers[1]) - began
        took, after, then = time.monotonic() - began, self.usage(), self.blocks()
        prices = []
        for name, place in self.layout.places.items():
            passed, size = (then[name][i] - blocks[name][i] for i in (0, 1))
            spent = after[name] - before[name] - self.idle[name] * took
            if place == "relay":
                passed, size = passed / 2, size / 2
            prices.append(
                Price(case, place, size / passed, passed, seconds, spent / passed * 1e6,
                      spent / size * bench.GB, self.idle[name], busy=machine_usage.busy)
            )  # fmt: skip
        return prices

    def _numbers(self, rank: int) -> dict[str, list[int]]:
        where = {node: host for host, nodes in self.layout.hosts.items() for node in nodes}
        found: dict[str, list[int]] = {}
        for session in self.layout.sessions:
            node = session.sink if rank == 1 else session.source
            found.setdefault(where[node], []).append(session.number)
        return found


@contextmanager
def running(layout: Layout, idle_seconds: float) -> Iterator[Running]:
    topology = square.Topology()
    for nodes in layout.hosts.values():
        for node in nodes:
            topology.add_node(node)
    for one, other in layout.links:
        topology.add_link(one, other, capacity_bps=layout.capacity_bps)
    with ExitStack() as stack:
        hosts = {}
        for name in layout.hosts:
            hosts[name] = bench.Host(name, Priced)
            stack.callback(hosts[name].close)
        scenario = bench.scenario_of(topology, layout.sessions, layout.policy)
        controller = stack.enter_context(square.Controller(scenario))
        for name, nodes in layout.hosts.items():
            for node in nodes:
                hosts[name].call("join", node, controller.address, {"paced": layout.paced})
        names = [node for nodes in layout.hosts.values() for node in nodes]
        controller.wait_for_nodes(names, bench.ANSWER_SECONDS)
        ends = {name for s in layout.sessions for name in (s.source, s.sink)}
        enrolled = [name for name, nodes in layout.hosts.items() if ends & set(nodes)]
        for name in enrolled:
            hosts[name].begin("enrol", layout.sessions)
        for name in enrolled:
            hosts[name].answer()
        for name in enrolled:
            hosts[name].call("prepare")
        made = Running(layout, hosts)
        made.measure_idle(idle_seconds)
        yield made


class BareLine:
    """Three processes of bare gRPC in a line: source, relay, destination."""

    def __init__(self, program: Path, stack: ExitStack) -> None:
        sink = Bare(program, "sink")
        stack.callback(sink.close)
        relay = Bare(program, "relay", sink.address)
        stack.callback(relay.close)
        source = Bare(program, "source", relay.address)
        stack.callback(source.close)
        self.peers = {"source": source, "relay": relay, "destination": sink}

    def send(self, size_bytes: int, count: int, interval: int) -> dict[str, float]:
        """So many messages, one each `interval` microseconds: CPU microseconds of each at every place."""
        burst = max(1, round(1e6 * TICK_SECONDS / interval)) if interval else 1
        sink = self.peers["destination"]
        before, received = {name: peer.usage() for name, peer in self.peers.items()}, sink.received()
        self.peers["source"].ask(f"send {size_bytes} {count} {interval} {burst}")
        while sink.received() < received + count:
            time.sleep(0.05)
        return {name: (peer.usage() - before[name]) / count * 1e6 for name, peer in self.peers.items()}


def play_beside_bare(run: Running, program: Path, case: str, operations: int) -> list[Price]:
    """The same messages over bare gRPC: as many, of the same size, at the same times."""
    rounds: list[list[Price]] = []
    with ExitStack() as stack:
        bare = BareLine(program, stack)
        bare.send(KIB, 10, 1000)
        time.sleep(SETTLE_SECONDS)
        for _ in range(ROUNDS):
            prices = run.play(case, max(1, operations // ROUNDS))
            count = round(min(price.blocks for price in prices))
            interval = round(1e6 * prices[0].seconds / count) if run.layout.paced else 0
            spent = bare.send(round(prices[0].block_bytes), count, interval)
            for price in prices:
                price.bare_microseconds = spent[price.place]
            rounds.append(prices)
    return [mean(list(place)) for place in zip(*rounds, strict=True)]


def mean(rounds: list[Price]) -> Price:
    """Of the same place, by block."""
    blocks = sum(one.blocks for one in rounds)

    def by_block(values: Iterator[float]) -> float:
        return sum(value * one.blocks for value, one in zip(values, rounds, strict=True)) / blocks

    return replace(
        rounds[0],
        blocks=blocks,
        seconds=sum(one.seconds for one in rounds),
        cpu_microseconds=by_block(one.cpu_microseconds for one in rounds),
        cpu_seconds_per_gb=by_block(one.cpu_seconds_per_gb for one in rounds),
        bare_microseconds=by_block(one.bare_microseconds or 0 for one in rounds),
        busy=max(one.busy for one in rounds),
    )


def cases(options: argparse.Namespace) -> Iterator[tuple[str, Layout, int]]:
    """Its name, what runs, how many operations at once."""
    for size in SIZES:
        seconds = options.seconds if size == SIZES[0] else options.seconds / 2
        operations = max(1, round(seconds * BLOCKS_PER_SECOND / BLOCKS_PER_OPERATION))
        yield f"{size // KIB} KiB alone", line(size), operations
        yield f"{size // KIB} KiB under load", line(size, LOAD_STREAMS[size]), operations
        unpaced = UNPACED_BLOCKS[size] // BLOCKS_PER_OPERATION // (8 if options.quick else 1)
        yield f"{size // KIB} KiB unpaced", line(size, paced=False), max(1, unpaced)
    for place in ("source", "relay", "destination"):
        yield f"{STREAMS} streams over {LINKS} links, {place}", star(place), 1


def measure(options: argparse.Namespace) -> list[Price]:
    found: list[Price] = []
    for case, layout, operations in cases(options):
        if options.only and not any(word in case for word in options.only):
            continue
        with running(layout, options.idle_seconds) as run:
            run.play(case, 1)  # warm
            if options.bare.exists() and "source" in layout.hosts:
                prices = play_beside_bare(run, options.bare, case, operations)
            else:
                prices = run.play(case, operations)
        found += prices
        if not options.json:
            for price in prices:
                print(row(price), flush=True)
    return found


def row(price: Price) -> str:
    bare = "" if price.ratio is None else f"{price.bare_microseconds:9.1f} {price.ratio:6.2f}"
    full = "  MACHINE FULL" if price.busy > machine.FULL else ""
    return (
        f"{price.case:38} {price.place:12} {price.block_bytes / KIB:7.1f} "
        f"{price.blocks / price.seconds:9.0f} {price.cpu_microseconds:9.1f} "
        f"{price.cpu_seconds_per_gb:8.2f} {price.idle * 100:6.2f} {price.seconds:7.3f}{bare:>17}{full}"
    )


HEADING = (
    f"{'case':38} {'at the':12} {'KiB':>7} {'blocks/s':>9} {'us/block':>9} {'CPU s/GB':>8} {'idle %':>6} "
    f"{'seconds':>7} {'bare us':>9} {'ratio':>6}"
)


def compare(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Each case by this tree and by the other, in turn."""
    compared = []
    for case, _, _ in cases(options):
        if options.only and not any(word in case for word in options.only):
            continue
        both = []
        for python in (options.other, sys.executable):
            command = [python, __file__, "--json", "--only", case, "--bare", options.bare, "--seconds",
                       str(options.seconds), "--idle-seconds", str(options.idle_seconds)]  # fmt: skip
            # Not the modules of the tree that this program lies in.
            done = subprocess.run(command, check=False, capture_output=True, text=True, cwd="/")
            if not done.stdout:
                raise RuntimeError(done.stderr)
            both.append(json.loads(done.stdout)["prices"])
        for other, ours in zip(*both, strict=True):
            cpu = ours["cpu_seconds_per_gb"] / other["cpu_seconds_per_gb"]
            seconds = ours["seconds"] / other["seconds"]
            compared.append({"other": other, "this": ours, "cpu_ratio": cpu, "seconds_ratio": seconds})
            if not options.json:
                print(
                    f"{ours['case']:38} {ours['place']:12} CPU {cpu:.3f} of the other's "
                    f"({ours['cpu_seconds_per_gb']:.2f} and {other['cpu_seconds_per_gb']:.2f} s/GB, idle "
                    f"{ours['idle'] * 100:.2f} and {other['idle'] * 100:.2f}%), time {seconds:.3f}",
                    flush=True,
                )
    return compared


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What a block costs at each place.")
    parser.add_argument("--quick", action="store_true", help="a few seconds for each case")
    parser.add_argument("--seconds", type=float, help="of blocks sent alone (default 10, quick 2.5)")
    parser.add_argument("--idle-seconds", type=float, help="(default 5, quick 2)")
    parser.add_argument("--only", nargs="*", metavar="WORDS", help="cases whose name contains one of these")
    parser.add_argument(
        "--bare", type=Path, default=PROGRAM, help="bare_grpc (default: that of `make build`)"
    )
    parser.add_argument("--other", metavar="PYTHON", help="the interpreter of another tree, to compare with")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.seconds = options.seconds or (2.5 if options.quick else 10.0)
    options.idle_seconds = options.idle_seconds or (2.0 if options.quick else 5.0)
    return options


def main() -> int:
    options = parse()
    command = shlex.join(["python", *sys.argv])
    document: dict[str, Any] = {"command": command, "congestion_control": bench.congestion_control(),
                                "cpus": os.cpu_count()}  # fmt: skip
    if not options.json:
        print(f"{command}\ncongestion control {document['congestion_control']}, {os.cpu_count()} CPUs")
    if options.other:
        document["compared"] = compare(options)
        if options.json:
            print(json.dumps(document))
        return 0
    if not options.json:
        print(HEADING, flush=True)
        if not options.bare.exists():
            print(f"without bare gRPC: there is no {options.bare}")
    prices = measure(options)
    if options.json:
        print(json.dumps(document | {"prices": [asdict(p) | {"ratio": p.ratio} for p in prices]}))
    return 0 if all(price.is_good() for price in prices) else 1


if __name__ == "__main__":
    sys.exit(main())
