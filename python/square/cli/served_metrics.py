"""`--metrics` of commands that serve."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from square import metrics


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--metrics", metavar="ADDR", help="serve Prometheus metrics there, for instance at 127.0.0.1:9100"
    )
    parser.add_argument(
        "--metrics-public",
        action="store_true",
        help="even if that address is not loopback: whoever reaches it may read them",
    )


def check(options: argparse.Namespace) -> None:
    """Raises InvalidArgumentError for an address that :func:`served` would refuse."""
    if options.metrics is not None:
        metrics.check_address(options.metrics, public=options.metrics_public)


@contextmanager
def served(
    what: metrics.Measured | metrics.Training, options: argparse.Namespace
) -> Iterator[dict[str, str]]:
    """Their address, by the word for it, if they are asked for."""
    if options.metrics is None:
        yield {}
        return
    with metrics.serve(what, options.metrics, public=options.metrics_public) as server:
        yield {"metrics": server.address}


def announce(served: dict[str, str]) -> None:
    """To people, where they are served."""
    for address in served.values():
        print(f"square: metrics at http://{address}/metrics", file=sys.stderr, flush=True)
