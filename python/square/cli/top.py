"""`square top`: what nodes carry right now, against what is planned."""

import argparse
import queue
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from square.cli import arguments, documents, traffic
from square.errors import UnavailableError
from square.run.interruption import signals_to

if TYPE_CHECKING:
    from rich.live import Live

    from square.watch.rates import Rates, View
    from square.watch.scraping import Answer, Scraper

DEFAULT_INTERVAL_SECONDS = 1.0
# A signal that comes just before a wait begins does not wake it: look again.
SIGNAL_CHECK_SECONDS = 0.2


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "top",
        "what nodes carry right now",
        "Shows links, sessions and tenants of running nodes: measured rate against planned rate, "
        "utilisation, queues, round-trip times. Until Ctrl-C.",
        "  square node --name a --controller 127.0.0.1:7000 --metrics 127.0.0.1:9100\n"
        "  square top 127.0.0.1:9100",
    )
    parser.add_argument(
        "addresses",
        nargs="+",
        metavar="ADDR",
        help="where a node serves its metrics, as `square node --metrics` printed it",
    )
    parser.add_argument("--by", choices=tuple(traffic.TABLES), help="this table alone")
    parser.add_argument("--once", action="store_true", help="measure over one interval, print, and end")
    parser.add_argument(
        "--interval",
        type=arguments.positive_float,
        default=DEFAULT_INTERVAL_SECONDS,
        metavar="SECONDS",
        help=f"how often to look (default {DEFAULT_INTERVAL_SECONDS:.0f})",
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON and nothing else; without --once a line an interval"
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    # Other commands start without what speaks HTTP.
    from square.watch.rates import Rates
    from square.watch.scraping import Scraper

    with Scraper(options.addresses) as scraper:
        rates = Rates()
        first = scraper.ask()
        _require_an_answer(first)
        rates.view(first)
        if options.once:
            time.sleep(options.interval)
            answers = scraper.ask()
            _require_an_answer(answers)
            _print(rates.view(answers), options)
        else:
            _watch(scraper, rates, options)
    return 0


def _require_an_answer(answers: "list[Answer]") -> None:
    if any(answer.snapshot for answer in answers):
        return
    reasons = "; ".join(f"{answer.address}: {answer.reason}" for answer in answers)
    raise UnavailableError(f"no node answers ({reasons}); is there a `square node --metrics ADDR`?")


def _watch(scraper: "Scraper", rates: "Rates", options: argparse.Namespace) -> None:
    # A signal ends it: somebody has seen enough, which is no failure.
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()
    with signals_to(ended.put):
        views = _views(scraper, rates, options.interval, ended)
        if options.json or not sys.stdout.isatty():
            for view in views:
                _print(view, options)
            return
        from rich.live import Live

        with Live(auto_refresh=False, screen=True) as live:
            for view in views:
                _show(live, view, options)


def _views(
    scraper: "Scraper", rates: "Rates", interval: float, ended: "queue.SimpleQueue[int]"
) -> "Iterator[View]":
    """One view an interval, the first after one, until a signal comes."""
    due = time.monotonic()
    while True:
        due = max(due + interval, time.monotonic())
        if _ends_within(ended, due):
            return
        yield rates.view(scraper.ask())


def _ends_within(ended: "queue.SimpleQueue[int]", due: float) -> bool:
    while True:
        left = due - time.monotonic()
        try:
            ended.get(timeout=max(0.0, min(left, SIGNAL_CHECK_SECONDS)))
        except queue.Empty:
            if left > SIGNAL_CHECK_SECONDS:
                continue
            return False
        return True


def _print(view: "View", options: argparse.Namespace) -> None:
    if not options.json:
        from square.cli import text

        text.console_for().print(traffic.rendered(view, options.by))
        return
    document = traffic.to_document(view, options.by, options.interval)
    if options.once:
        print(documents.to_text(document))
    else:
        documents.print_line(document)


def _show(live: "Live", view: "View", options: argparse.Namespace) -> None:
    live.update(traffic.rendered(view, options.by), refresh=True)
