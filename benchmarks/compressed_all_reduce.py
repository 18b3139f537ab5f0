"""All-reduce of gradients over slow links, uncompressed and by every kind of compression.

Every site is a network namespace with one rank, every link shaped by the kernel. What it costs in
accuracy is the distance of the result from the sum in float64, in one call and, with error feedback, of the
sum of all calls: normal numbers are the worst case for top-k, gradients have fewer large elements.

    python benchmarks/compressed_all_reduce.py [--mbps 100] [--mib 16] [--kinds none bf16 int8] [--json]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

import machine
import numpy as np
import square
from netns_run import links_both_ways, main, parser_for
from square.run.sites import Sites

KINDS = ["none", "bf16", "int8", "int8:256:feedback", "top-k:0.01"]
SITES = ["a", "b", "c", "d"]
CALL_SECONDS = 250.0
# Calls before those that count: the first registers its sessions and opens connections, and after
# some seconds the controller knows what is used.
WARM_UP_CALLS = 4
WARM_UP_PAUSE = 1.0


def gradients(rank: int, number: int, elements: int) -> Any:
    return np.random.default_rng([rank, number]).standard_normal(elements, dtype=np.float32)


def measure_kind(
    group: square.Communicator, rank: int, kind: str, elements: int, calls: int
) -> dict[str, Any]:
    """One rank's figures. Seconds are from when all are ready until the result is there."""
    compression = square.Compression.parse(kind)
    feedback = square.ErrorFeedback() if compression.error_feedback else None
    total = square.CompressionReport()
    got, wanted = np.zeros(elements), np.zeros(elements)
    seconds, errors = [], []
    cost = machine.Cost()
    for number in range(WARM_UP_CALLS + calls):
        numbers = gradients(rank, number, elements)
        exact = sum(gradients(other, number, elements).astype(np.float64) for other in range(group.size))
        group.barrier(timeout=CALL_SECONDS)
        processors, cpu = machine.processors(), time.process_time()
        begun = time.perf_counter()
        work = group.all_reduce_async(
            numbers, compression=compression, feedback=feedback, timeout=CALL_SECONDS
        )
        work.wait()
        if number < WARM_UP_CALLS:
            time.sleep(WARM_UP_PAUSE)
        else:
            seconds.append(time.perf_counter() - begun)
            after = machine.processors()
            busy = (after[0] - processors[0]) / max(after[1] - processors[1], 1e-9)
            cost.add(time.process_time() - cpu, 0.0, seconds[-1], busy)
        got, wanted = got + numbers, wanted + exact
        errors.append(float(np.linalg.norm(numbers - exact) / np.linalg.norm(exact)))
        if work.compression_report is not None:
            total = total + work.compression_report
    return {
        "seconds": seconds,
        "cost": [cost.cpu_seconds, cost.seconds, cost.busy_seconds / max(cost.seconds, 1e-9)],
        "ratio": total.ratio,
        "relative_error_sent": total.relative_error,
        "relative_error": statistics.mean(errors),
        "relative_error_of_all": float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted)),
        "checksum": int(np.bitwise_xor.reduce(numbers.view(np.uint32))),
    }


def rank_main() -> None:
    """Runs at a site: what to do comes as a line of JSON, figures go back as another."""
    task = json.loads(sys.stdin.readline())
    name = SITES[task["rank"]]
    bind = f"{os.environ['SQUARE_INTERFACE']}:0"
    with square.Node(
        name, os.environ["SQUARE_CONTROLLER"], bind_address=bind, identity=os.environ["SQUARE_IDENTITY"]
    ) as node:
        group = square.Communicator(node, "benchmark", "tenant", SITES, task["rank"])
        figures = measure_kind(group, task["rank"], task["kind"], task["elements"], task["calls"])
        group.barrier()
        print(json.dumps(figures), flush=True)
        sys.stdin.readline()  # all have what they need
        del group


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    return _figures({kind: _run(options, kind) for kind in options.kinds}, options)


def _run(options: argparse.Namespace, kind: str) -> list[dict[str, Any]]:
    """Every rank's figures, in an overlay where nothing else is called."""
    pairs = {(one, other): options.mbps for one in SITES for other in SITES if one < other}
    topology = links_both_ways(pairs)
    elements = (options.mib << 20) // 4
    with (
        Sites(topology) as sites,
        sites.controller(square.Scenario(topology, square.Policy("exact"), name="slow")) as controller,
    ):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        command = [sys.executable, os.path.abspath(__file__), "--rank"]
        ranks = [sites.start(name, command, sites.environment(name, controller), **pipes) for name in SITES]
        try:
            return _ask(ranks, {"elements": elements, "calls": options.repeat, "kind": kind})
        finally:
            for process in ranks:
                process.kill()
                process.wait()


def _ask(ranks: list[subprocess.Popen[str]], task: dict[str, Any]) -> list[dict[str, Any]]:
    for rank, process in enumerate(ranks):
        assert process.stdin is not None
        process.stdin.write(json.dumps(task | {"rank": rank}) + "\n")
        process.stdin.flush()
    answers = []
    for name, process in zip(SITES, ranks, strict=True):
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"the rank at {name} ended; see its messages above")
        answers.append(json.loads(line))
    return answers


def _figures(
    answers: dict[str, list[dict[str, Any]]], options: argparse.Namespace
) -> tuple[dict[str, Any], list[str]]:
    figures: dict[str, Any] = {"sites": len(SITES), "mbps": options.mbps, "mib": options.mib, "kinds": {}}
    lines = [
        f"{len(SITES)} sites, every two joined by {options.mbps:g} Mbit/s, {options.mib} MiB of float32, "
        f"median of {options.repeat} calls"
    ]
    for kind, of_kind in answers.items():
        if len({one["checksum"] for one in of_kind}) != 1:
            raise SystemExit(f"{kind}: ranks have different bits")
        slowest = [max(call) for call in zip(*(one["seconds"] for one in of_kind), strict=True)]
        figures["kinds"][kind] = {**of_kind[0], "seconds": statistics.median(slowest)}
        figures["kinds"][kind].pop("checksum")
        cost = machine.Cost()
        _, took, busy = figures["kinds"][kind].pop("cost")
        # Of the floats that are added, not of what is sent for them.
        gb_hops = (options.mib << 20) / 1e9 * options.repeat * 2 * (len(SITES) - 1)
        cost.add(sum(one["cost"][0] for one in of_kind), gb_hops, took, busy)
        figures["kinds"][kind] |= cost.figures()
    plain = figures["kinds"].get("none", {}).get("seconds")
    for kind, one in figures["kinds"].items():
        one["times_sooner"] = plain / one["seconds"] if plain else None
        sooner = f", {one['times_sooner']:.2f} times sooner" if plain else ""
        lines.append(
            f"{kind:<18} {one['seconds']:.3f} s{sooner}; {one['ratio']:.2f} times fewer bytes; "
            f"relative error of a sum {one['relative_error']:.2e}, "
            f"of all sums together {one['relative_error_of_all']:.2e}; {machine.describe(one)}"
        )
    return figures, lines


def options_parser() -> argparse.ArgumentParser:
    parser = parser_for("All-reduce over slow links, uncompressed and compressed.")
    parser.add_argument("--mbps", type=float, default=100.0, help="of every link, each way (default 100)")
    parser.add_argument("--mib", type=int, default=16, help="of float32 at every rank (default 16)")
    parser.add_argument("--kinds", nargs="+", default=KINDS, help=f"(default {' '.join(KINDS)})")
    return parser


if __name__ == "__main__":
    if "--rank" in sys.argv[1:]:
        rank_main()
    else:
        sys.exit(main(options_parser(), measure))
