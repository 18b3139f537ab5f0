"""What encryption costs on large blocks: the same broadcast in the clear, with mutual TLS, and with blocks
that are sealed from end to end beside it, in turn.

Source, relay and receiver are three processes on loopback, unpaced; the relay is the only way. Beside it bare
gRPC (`bare_grpc`), messages of 1 MiB over the same three, in the clear and with the same credentials; and
what OpenSSL alone needs to seal and to open as much (`openssl speed`, AES-256-GCM, blocks of 16 KiB): by TLS
each byte is sealed twice and opened twice on its way, by its source and its destination once.

    python benchmarks/encryption_cost.py [--mib 64] [--calls 8] [--rounds 3] [--json]
"""

import argparse
import itertools
import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import square
from block_price import PROGRAM, Bare

NAMES = ["source", "relay", "receiver"]
MEMBERS = ["source", "receiver"]
HOPS = 2
PATIENCE_SECONDS = 60.0
GB = 1e9
MIB = 1 << 20
CIPHER = "aes-256-gcm"
BLOCK_BYTES = 16384


def worker() -> None:
    """One node; says "ready", then its CPU seconds once its input ends."""
    name, controller, identity, sealed, size, calls = json.loads(sys.argv[2])
    square.tune_process_memory()
    with square.Node(name, controller, identity=identity, paced=False, sealed=sealed) as node:
        group = None
        if name in MEMBERS:
            called = [("broadcast", 0, size, 1.0)]
            group = square.Communicator(node, "g", "t", MEMBERS, MEMBERS.index(name), collectives=called)
        buffer = bytearray(size)
        if group is not None:
            group.broadcast(buffer, 0)
        before = resource.getrusage(resource.RUSAGE_SELF)
        begin = time.monotonic()
        print("ready", flush=True)
        for _ in range(calls if group is not None else 0):
            assert group is not None
            group.broadcast(buffer, 0)
        seconds = time.monotonic() - begin
        print("done", flush=True)
        sys.stdin.readline()
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(json.dumps([cpu, seconds]), flush=True)
        sys.stdin.readline()


def issue(folder: Path) -> dict[str, str]:
    """The folders of identities of an authority, by who they are of."""
    authority = square.Authority.create(folder / "authority", "benchmark.example")
    life = timedelta(days=1)
    for role, name in [("controller", "controller"), *(("node", name) for name in NAMES)]:
        authority.issue(role, name, folder / name, life)
        authority.grant("*", folder / name, life)
    return {name: str(folder / name) for name in ["controller", *NAMES]}


def run(identities: dict[str, str], sealed: bool, size: int, calls: int) -> tuple[float, float]:
    """CPU seconds of all three for each GB of the tensor, and GB/s."""
    topology = square.Topology()
    for name in NAMES:
        topology.add_node(name)
    for tail, head in itertools.pairwise(NAMES):
        topology.add_link(tail, head)
    with square.Controller(square.Scenario(topology), identity=identities.get("controller")) as controller:
        processes = [
            subprocess.Popen(
                [
                    sys.executable,
                    __file__,
                    "worker",
                    json.dumps([name, controller.address, identities.get(name), sealed, size, calls]),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for name in NAMES
        ]
        for process in processes:
            for word in ("ready", "done"):
                assert process.stdout is not None
                assert process.stdout.readline() == f"{word}\n"
        told = []
        for process in processes:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            told.append(json.loads(process.stdout.readline()))
        for process in processes:
            process.communicate("\n")
    moved = size * calls / GB
    return sum(cpu for cpu, _ in told) / moved, moved / told[-1][1]


def run_bare(identities: dict[str, str], size: int, calls: int) -> float:
    """CPU seconds of all three for each GB that goes through them."""
    others: list[Bare] = []
    for role, name in (("sink", "receiver"), ("relay", "relay"), ("source", "source")):
        to = [others[-1].address] if others else []
        others.append(Bare(PROGRAM, role, *to, identity=identities.get(name)))
    try:
        sink, _, source = others
        source.ask(f"send {MIB} 64 0")
        wait_until(lambda: sink.received() == 64)
        before = sum(one.usage() for one in others)
        count = size * calls // MIB
        source.ask(f"send {MIB} {count} 0")
        wait_until(lambda: sink.received() == 64 + count)
        return (sum(one.usage() for one in others) - before) / (count * MIB / GB)
    finally:
        for one in others:
            one.close()


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError("the messages have not come through")
        time.sleep(0.01)


def cipher_cost() -> float:
    """Seconds to seal a GB and open it again, as `openssl speed` has them."""
    seconds = 0.0
    for way in ([], ["-decrypt"]):
        command = ["openssl", "speed", "-elapsed", "-seconds", "1", "-bytes", str(BLOCK_BYTES)]
        result = subprocess.run(
            [*command, *way, "-evp", CIPHER], capture_output=True, text=True, check=True, timeout=60
        )
        rate = re.search(r"(?im)^aes-256-gcm\s+([\d.]+)k", result.stdout)
        assert rate is not None, result.stdout
        seconds += GB / (float(rate[1]) * 1e3)
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description="What encryption costs on large blocks.")
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--calls", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    measured: dict[str, list[tuple[float, float]]] = {"clear": [], "tls": [], "sealed": []}
    bare: dict[str, list[float]] = {"clear": [], "tls": []}
    with tempfile.TemporaryDirectory() as folder:
        issued = issue(Path(folder))
        for _ in range(options.rounds):
            for way, runs in measured.items():
                identities = {} if way == "clear" else issued
                runs.append(run(identities, way == "sealed", options.mib * MIB, options.calls))
                if way in bare:
                    bare[way].append(run_bare(identities, options.mib * MIB, options.calls))
    cpu = {way: statistics.median(seconds for seconds, _ in runs) for way, runs in measured.items()}
    cipher = cipher_cost()
    figures = {f"{way}_cpu_seconds_per_gb_and_hop": seconds / HOPS for way, seconds in cpu.items()}
    figures |= {
        f"bare_grpc_{way}_cpu_seconds_per_gb_and_hop": statistics.median(runs) / HOPS
        for way, runs in bare.items()
    }
    figures["tls_over_bare_grpc_with_tls"] = cpu["tls"] / statistics.median(bare["tls"])
    figures |= {
        f"{way}_gb_per_second": statistics.median(rate for _, rate in runs) for way, runs in measured.items()
    }
    figures["openssl_seconds_per_gb"] = cipher
    figures["tls_added_over_openssl"] = (cpu["tls"] - cpu["clear"]) / (HOPS * cipher)
    figures["sealing_added_over_openssl"] = (cpu["sealed"] - cpu["tls"]) / cipher
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:42} {value:.3f}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker()
    else:
        sys.exit(main())
