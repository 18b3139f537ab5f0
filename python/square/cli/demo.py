"""`square demo`: the bundled scenario under three policies."""

import argparse

from square.cli import arguments, bundled, text
from square.cli import run as run_command

POLICIES = ("square", "shortest-path", "mcf")
SCENARIO = "demo"

_BEFORE = """\
Square demo: four sites, twelve links of uneven capacity, three tenants.

Each tenant broadcasts its own bytes from its own site to the three others, all at once, three
times over: planned by Square, along shortest paths, and as separate flows (mcf), the two
baselines of the paper. Every site is a process of its own; they talk gRPC on loopback, each
paced to the capacity of its links. Every byte is compared at every destination.
The direct links of the three are thin, those through London wide: a fair plan relays there.
"""

_AFTER = """\
"ratio" is measured over planned completion; "bound" is a rate that no plan could exceed while
the other collectives keep theirs.

Next:
  square demo --json                      the same for programs
  square plan {file}
      who sends what over which trees
  square run {file} --input FILE
      send a file of yours
"""


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "demo",
        "run a bundled scenario: three tenants, four sites, three policies",
        "Runs the bundled scenario (Frankfurt, San Francisco, Sydney, London) under square,\n"
        "shortest-path and mcf, and compares them. Takes under a minute.",
        "  square demo --json > demo.json",
    )
    run_command.add_execution(parser)
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    if not options.json:
        print(_BEFORE, flush=True)
    outcome = run_command.run(bundled.scenario(SCENARIO), POLICIES, options)
    run_command.show(outcome, options)
    if not options.json:
        text.console_for().print()
        print(_AFTER.format(file=bundled.resource(SCENARIO)), end="")
    return 0
