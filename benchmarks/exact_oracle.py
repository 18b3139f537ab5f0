"""The policy "exact" against independent oracles on very many random instances.

The comparison of tests/python/test_exact_oracle.py, in processes: `lp_rate` against a
lexicographic program over arc flows in SciPy's HiGHS, `rate` against one over all enumerated
trees where the nodes are few. Lists every instance whose trees carry less than its program
allows. Exit code 1 if any plan differs or is not sound.

    python benchmarks/exact_oracle.py [--instances 100000] [--jobs 2] [--seed 1]
"""

import multiprocessing
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))
os.environ.setdefault("OMP_NUM_THREADS", "1")  # as many processes as --jobs, and no more threads

from exact_comparison import DifferenceError, Outcome, compare
from exact_report import Report, parser


def one(task: tuple[int, int]) -> tuple[Outcome, str]:
    """The outcome, and what is wrong with the plan."""
    seed, number = task
    try:
        return compare(seed, number), ""
    except DifferenceError as error:
        return Outcome(number), str(error)


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--instances", type=int, default=100_000)
    arguments.add_argument("--first", type=int, default=0, help="number of the first instance")
    arguments.add_argument("--jobs", type=int, default=2, help="processes")
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    report = Report("exact_oracle.py", as_json=options.json)
    numbers = range(options.first, options.first + options.instances)
    start = time.monotonic()
    trees = different = short = undecided = 0
    worst = 0.0
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        tasks = ((options.seed, number) for number in numbers)
        for done, (outcome, wrong) in enumerate(pool.imap_unordered(one, tasks, chunksize=25), start=1):
            if wrong:
                different += 1
                report.line(f"DIFFERENT: {wrong}")
            trees += outcome.with_trees
            short += bool(outcome.shortfalls)
            undecided += bool(outcome.undecided)
            worst = max(worst, outcome.worst_difference)
            for line in outcome.shortfalls:
                report.line(f"trees fall short: {line}")
            if outcome.undecided:
                report.line(f"no oracle: {outcome.undecided}")
            if done % 1000 == 0 or done == len(numbers):
                seconds = time.monotonic() - start
                print(f"{done} of {len(numbers)}, {seconds:.0f} s, {different} different", file=sys.stderr)
    report.figure("instances compared with arc flows", len(numbers) - undecided)
    report.figure("of them with all trees", trees)
    report.figure("instances whose rate is below their lp_rate", short)
    report.figure("instances that the oracle gave up", undecided, most=max(1, len(numbers) // 500))
    report.figure("largest relative difference", worst)
    report.figure("instances that differ", different, most=0)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
