"""Trains a small GPT over four emulated clusters of uneven speeds and links, in every mode there is.

    python examples/outer_optimizers --out report.html
    python examples/outer_optimizers --modes diloco di-ps --horizon 10 --seeds 1 2 3 4 5 --json

Learning is real, one process a run; time is a virtual clock: steps, links and waiting are arithmetic. All
modes begin with one model and consume as many tokens: data parallel; DiLoCo, as it is and with int8 over a
real group of square; streaming; naive asynchronous, where each push is applied at once; Di-PS; and Di-PS
"paced", whose clusters do as many inner steps as they have time for, so that all push together. The same
command gives the same bits, whatever --jobs is.
"""

import argparse
import json
import math
import os
import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import experiment
import report
from clusters import Clusters
from figures import figures
from model import Cluster, Learning
from modes import DATA_PARALLEL, MODES, OUTER, Run, Task
from text import LEAST_BYTES, PACKAGES, TextError

QUICK = Learning(
    width=16, layers=1, length=32, pieces=2, warm_steps=40, tokens=12_800, held_out_pieces=64, rate=5e-3
)
QUICK_HORIZON, QUICK_SEEDS = 10, 2
QUICK_LEAST_BYTES = 10_000
INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="outer_optimizers",
        description=__doc__.partition("\n")[0],
        epilog=f"Without --text it reads the Jargon File, in the public domain, as the Debian package "
        f"{' or '.join(PACKAGES)} installs it.",
    )
    usual, clusters = Learning(), Clusters()
    made.add_argument(
        "--text", type=Path, metavar="FILE", help=f"of at least {LEAST_BYTES} bytes, as it is or by gzip"
    )
    made.add_argument(
        "--tokens", type=int, metavar="N", help=f"of all clusters in a run (default {usual.tokens})"
    )
    made.add_argument("--seeds", type=int, nargs="+", metavar="N", help="(default 1 2 3)")
    made.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES), help="(default: all)")
    made.add_argument(
        "--horizon", type=int, nargs="+", metavar="H", help="inner steps between exchanges (default 50 10)"
    )
    made.add_argument(
        "--step-seconds",
        type=float,
        default=clusters.step_seconds,
        metavar="S",
        help="of the fastest cluster's step, by the virtual clock (default %(default)s)",
    )
    made.add_argument(
        "--links",
        type=float,
        nargs=len(clusters.speeds),
        default=clusters.links_mbps,
        metavar="MBPS",
        help="of each cluster, the fastest first (default 100 100 100 10)",
    )
    made.add_argument(
        "--grace",
        type=float,
        metavar="X",
        help="how long a round of Di-PS is open, over the time that the fastest cluster needs for its steps "
        f"(default {Task.grace})",
    )
    made.add_argument("--width", type=int, metavar="N", help=f"of the GPT (default {usual.width})")
    made.add_argument("--layers", type=int, metavar="N", help=f"of the GPT (default {usual.layers})")
    made.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="runs at once (default: all cores)"
    )
    made.add_argument(
        "--quick", action="store_true", help="a tiny model and few tokens, to try it: no result"
    )
    made.add_argument("--out", type=Path, metavar="FILE", help="an HTML report")
    made.add_argument("--json", action="store_true", help="all figures and curves as JSON and nothing else")
    return made


def learning_of(options: argparse.Namespace) -> Learning:
    base = QUICK if options.quick else Learning()
    given = {name: getattr(options, name) for name in ("tokens", "width", "layers")}
    return replace(base, **{name: value for name, value in given.items() if value is not None})


def tasks_of(options: argparse.Namespace) -> list[Task]:
    """Raises ValueError for options that no run can be made of."""
    learning = learning_of(options)
    clusters = Clusters(options.step_seconds, tuple(options.links))
    seeds = options.seeds or list(range(1, 1 + (QUICK_SEEDS if options.quick else 3)))
    horizons = options.horizon or ([QUICK_HORIZON] if options.quick else [50, 10])
    if learning.width % learning.heads or learning.width < 1 or learning.layers < 1:
        raise ValueError(f"--layers must be at least 1, --width a multiple of {learning.heads}, the heads")
    if not all(value > 0 for value in (options.step_seconds, *options.links, options.jobs)):
        raise ValueError("--step-seconds, --links and --jobs must be above 0")
    whole = Task(MODES[1], 0, max(horizons), learning, clusters)
    # A fragment of streaming travels for `delay` steps, before the next one.
    grace = Task.grace if options.grace is None else options.grace
    if not grace >= 0:
        raise ValueError("--grace must be at least 0")
    least = whole.fragments * whole.delay
    if min(horizons) < least or whole.rounds < 2:
        raise ValueError(f"--horizon must be at least {least}, and go twice into --tokens")
    chosen = [(mode, horizon) for horizon in horizons for mode in options.modes if mode != DATA_PARALLEL]
    if DATA_PARALLEL in options.modes:
        chosen.insert(0, (DATA_PARALLEL, 1))
    return [
        Task(mode, seed, horizon, learning, clusters, grace=grace)
        for mode, horizon in dict.fromkeys(chosen)
        for seed in dict.fromkeys(seeds)
    ]


def results(options: argparse.Namespace, tasks: list[Task]) -> tuple[dict[str, Any], list[Run]]:
    source = experiment.Source(options.text, QUICK_LEAST_BYTES if options.quick else LEAST_BYTES)
    corpus = source.read()
    first = tasks[0]
    parameters = len(Cluster(first.learning, corpus, 0, [0]).parameters())
    print(
        f"{len(tasks)} runs of {first.learning.tokens} tokens, {parameters} parameters, {corpus.name}",
        file=sys.stderr,
        flush=True,
    )
    runs = experiment.run(source, tasks, options.jobs)
    about = {
        "command": shlex.join(sys.orig_argv),
        "text": corpus.name,
        "parameters": parameters,
        "learning": asdict(first.learning),
        "clusters": asdict(first.clusters),
        "outer": {mode: asdict(OUTER[mode]) for mode in options.modes if mode in OUTER},
        "seeds": list(dict.fromkeys(one.seed for one in tasks)),
        "digests": {f"{one.mode}, H {one.horizon}, seed {one.seed}": one.digest for one in runs},
    }
    return {**about, **figures(first, runs, parameters), "runs": [asdict(one) for one in runs]}, runs


def print_tables(found: dict[str, Any]) -> None:
    print(f"{'mode':<14}{'H':>5}{'held-out loss':>15}{'deviation':>11}{'over diloco':>13}")
    for row in found["losses"]:
        above = f"{row['above_reference']:+13.2%}" if "above_reference" in row else ""
        print(f"{row['mode']:<14}{row['horizon']:>5}{row['mean']:>15.4f}{row['deviation']:>11.4f}{above}")
    print("\ntimes fewer bytes than data parallel until the same held-out loss")
    for row in found["bytes_until_the_same_loss"]:
        print(f"{row['mode']:<14}{row['horizon']:>5}{row['mean']:>15.0f}   least {row['least']:.0f}")
    print("\nthroughput over synchronous DiLoCo, by the clock")
    for row in [*found["throughput"], *found["arithmetic"]["rows"]]:
        arithmetic = f"   {found['arithmetic']['note']}" * (row in found["arithmetic"]["rows"])
        print(f"{row['mode']:<14}{row['horizon']:>5}{row['over_reference']:>15.3f}{arithmetic}")
    for horizon, ceiling in found["ceilings"].items():
        print(
            f"at the most, H = {horizon}: {ceiling['without_communication']:.3f} without communication, "
            f"{ceiling['over_these_links']:.3f} over these links"
        )


def finite(value: Any) -> Any:
    """JSON has no infinities: what diverged is null."""
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def main() -> int:
    options = parser().parse_args()
    try:
        found, runs = results(options, tasks_of(options))
        if options.out is not None:
            options.out.write_text(report.document(found, runs), encoding="utf-8")
    except (TextError, ValueError, OSError) as error:
        print(f"outer_optimizers: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    if options.json:
        print(json.dumps(finite(found), indent=2))
    else:
        print_tables(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
