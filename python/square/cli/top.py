"""`square top`: what nodes carry right now, against what is planned, and how a training goes."""

import argparse
import queue
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from square.cli import arguments, documents, identities, traffic
from square.errors import UnavailableError
from square.run.interruption import signals_to

if TYPE_CHECKING:
    from rich.console import Group

    from square.page import LivePage
    from square.watch.rates import Rates, View
    from square.watch.scraping import Answer, Scraper
    from square.watch.training import TrainingView, TrainingWatch

DEFAULT_INTERVAL_SECONDS = 1.0
# A signal that comes just before a wait begins does not wake it: look again.
SIGNAL_CHECK_SECONDS = 0.2


@dataclass(frozen=True)
class Watch:
    """Whom it asks: nodes, a master of parameter servers, or both."""

    scraper: "Scraper"
    rates: "Rates"
    training: "TrainingWatch | None"

    def look(self) -> "Look":
        answers = self.scraper.ask()
        training = self.training.look() if self.training else None
        return Look(answers, self.rates.view(answers), training)


@dataclass(frozen=True)
class Look:
    """What they said."""

    answers: "list[Answer]"
    traffic: "View"
    training: "TrainingView | None"


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "top",
        "what nodes carry right now, and how a training goes",
        "Shows what running nodes carry: each collective's planned and measured rate and what holds it\n"
        "back, links with utilisation, queues and round-trip times, and tenants. Sessions: --by session.\n"
        "With --master the workers and servers of a training, too, or alone. Until Ctrl-C.\n"
        "With --html a page of it, too: a picture of the overlay, and tenants' rates over time.",
        "  square node --name a --controller 127.0.0.1:7000 --metrics 127.0.0.1:9100\n"
        "  square top 127.0.0.1:9100\n"
        "  square top 127.0.0.1:9100 --html top.html\n"
        "  square top --master 127.0.0.1:7100",
    )
    parser.add_argument(
        "addresses",
        nargs="*",
        metavar="ADDR",
        help="where a node serves its metrics, as `square node --metrics` printed it",
    )
    parser.add_argument("--master", metavar="ADDR", help="what `square ps master` printed")
    identities.add_options(parser, listens=False)
    parser.add_argument("--by", choices=tuple(traffic.TABLES), help="this table of nodes alone")
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
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="also write a page for a browser, anew each interval; it follows until the command ends",
    )
    parser.set_defaults(execute=execute, parser=parser)


def execute(options: argparse.Namespace) -> int:
    # Other commands start without what speaks HTTP.
    from square.watch.rates import Rates
    from square.watch.scraping import Scraper
    from square.watch.training import TrainingWatch

    if not options.addresses and options.master is None:
        options.parser.error("name where a node serves its metrics, or a training's --master")
    page = _page(options)
    identity = identities.identity_of(options)
    training = None if options.master is None else TrainingWatch(options.master, identity)
    with Scraper(options.addresses) as scraper:
        watch = Watch(scraper, Rates(), training)
        first = watch.look()
        _require_an_answer(first)
        if page is not None:
            page.add(first.traffic)
        if options.once:
            time.sleep(options.interval)
            look = watch.look()
            _require_an_answer(look)
            _print(look, options)
            if page is not None:
                page.add(look.traffic)
        else:
            _watch(watch, page, options)
        if page is not None:
            page.write(is_last=True)
    return 0


def _page(options: argparse.Namespace) -> "LivePage | None":
    if options.html is None:
        return None
    if not options.addresses:
        options.parser.error("--html draws nodes: name where they serve their metrics")
    from square.page import LivePage

    return LivePage(Path(options.html), options.interval)


def _require_an_answer(look: Look) -> None:
    error = look.training.error if look.training else None
    if error is not None and not isinstance(error, UnavailableError):
        raise error  # it is there, and will say the same again
    if any(answer.snapshot for answer in look.answers) or (look.training and error is None):
        return
    if error is not None and not look.answers:
        raise error
    reasons = [f"{answer.address}: {answer.reason}" for answer in look.answers]
    reasons += [] if error is None else [str(error)]
    raise UnavailableError(
        f"no node answers ({'; '.join(reasons)}); is there a `square node --metrics ADDR`?"
    ) from error


def _watch(watch: Watch, page: "LivePage | None", options: argparse.Namespace) -> None:
    # A signal ends it: somebody has seen enough, which is no failure.
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()
    with signals_to(ended.put):
        looks = _looks(watch, options.interval, ended)
        if page is not None:
            page.write()
            looks = _drawn(looks, page)
        if options.json or not sys.stdout.isatty():
            for look in looks:
                _print(look, options)
            return
        from rich.live import Live

        with Live(auto_refresh=False, screen=True) as live:
            for look in looks:
                live.update(_rendered(look, options), refresh=True)


def _looks(watch: Watch, interval: float, ended: "queue.SimpleQueue[int]") -> Iterator[Look]:
    """One an interval, the first after one, until a signal comes."""
    due = time.monotonic()
    while True:
        due = max(due + interval, time.monotonic())
        if _ends_within(ended, due):
            return
        yield watch.look()


def _drawn(looks: Iterator[Look], page: "LivePage") -> Iterator[Look]:
    for look in looks:
        page.add(look.traffic)
        page.write()
        yield look


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


def _print(look: Look, options: argparse.Namespace) -> None:
    if not options.json:
        from square.cli import text

        text.console_for().print(_rendered(look, options))
        return
    document = traffic.to_document(look.traffic, options.by, options.interval)
    if look.training is not None:
        from square.cli.ps import training

        document["training"] = training.to_document(look.training)
    if options.once:
        print(documents.to_text(document))
    else:
        documents.print_line(document)


def _rendered(look: Look, options: argparse.Namespace) -> "Group":
    from rich.console import Group

    parts = [traffic.rendered(look.traffic, options.by)] if options.addresses else []
    if look.training is not None:
        from square.cli.ps import training

        parts += [training.rendered(look.training)]
    return Group(*parts)
