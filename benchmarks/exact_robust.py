"""Very many solves of randomly perturbed instances on threads: does every plan pass the checker?

8 to 16 nodes, 2 to 8 collectives, capacities over six decades; the instances of
tests/python/test_exact_robust.py. Exit code 1 if a plan fails or is not certified to 1e-6.

    python benchmarks/exact_robust.py [--solves 100000] [--threads 2] [--seed 1]
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

from exact_perturbed import solve_all
from exact_report import Report, parser


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--solves", type=int, default=100_000)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    report = Report("exact_robust.py", as_json=options.json)
    start = time.monotonic()
    wrong = 0
    worst = 0.0
    for done, solved in enumerate(solve_all(options.seed, options.solves, options.threads), start=1):
        if solved.wrong:
            wrong += 1
            report.line(f"WRONG: {solved.wrong}")
        else:
            worst = max(worst, solved.gap)
        if done % 1000 == 0 or done == options.solves:
            seconds = time.monotonic() - start
            print(f"{done} of {options.solves}, {seconds:.0f} s, {wrong} wrong", file=sys.stderr)
    report.figure("solves", options.solves)
    report.figure("largest lp_gap of those that pass", worst, most=1e-6)
    report.figure("answers that fail the checker", wrong, most=0)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
