"""A run, for people."""

from typing import TYPE_CHECKING

from square.cli import assumption, text
from square.run import wiring
from square.run.network import NetworkOutcome
from square.run.outcome import PolicyOutcome, RunOutcome, Totals
from square.run.processors import FULL

if TYPE_CHECKING:
    from rich.console import Console

# Narrower consoles get fewer columns.
WIDE = 104


def print_run(outcome: RunOutcome, console: "Console") -> None:
    console.print(_network(outcome.network))
    console.print()
    for policy in outcome.policies:
        _print_policy(policy, console)
    if len(outcome.policies) > 1:
        _print_comparison(outcome, console)
    console.print(
        f"all {outcome.verified_bytes} bytes at {outcome.verified_destinations} destinations "
        "verified (sha256)"
    )


def _print_policy(policy: PolicyOutcome, console: "Console") -> None:
    wide = console.width >= WIDE
    extra = ("to", "MB") if wide else ()
    sums = any(c.op != "broadcast" for c in policy.collectives)
    table = text.table(
        "id",
        "tenant",
        *(("op",) if sums else ()),
        "root",
        *extra,
        "planned\nMbit/s",
        "measured\nMbit/s",
        "planned\ns",
        "measured\ns",
        "ratio",
        "bound\nMbit/s",
        "rate/\nbound",
        left=4 if sums else 3,
    )
    for c in policy.collectives:
        table.add_row(
            str(c.id),
            c.tenant,
            *((c.op,) if sums else ()),
            c.root or "-",
            *((str(c.destinations), text.size(c.size_bytes)) if wide else ()),
            text.rate(c.planned_bps),
            text.rate(c.measured_bps),
            text.seconds(c.planned_seconds),
            text.seconds(c.measured_seconds),
            text.figure(c.completion_ratio),
            text.rate(c.bound_bps),
            text.percent(c.rate_to_bound),
        )
    console.print(f"Policy {policy.policy}", style="bold")
    console.print(table)
    is_assumed = any(c.is_bound_assumed for c in policy.collectives)
    for sentence in assumption.sentences(
        policy.assumed_links, policy.assumed_bps, is_bound_assumed=is_assumed
    ):
        console.print(sentence)
    for name, totals in (("planned", policy.planned), ("measured", policy.measured)):
        console.print(f"{name:>9}: {_totals(totals)}")
    if policy.traffic is not None:
        console.print(
            f"  network: {text.count(policy.traffic.dropped_packets, 'packet')} dropped by shapers, "
            f"{text.count(policy.traffic.retransmitted_segments, 'segment')} sent again by TCP"
        )
    if policy.busy is not None:
        limits = ": it may be what limited, not the network" if policy.busy > FULL else ""
        console.print(f"  machine: {text.percent(policy.busy)} busy{limits}")
    console.print()


def _network(network: NetworkOutcome) -> str:
    pacing = "paced by the nodes" if network.paced else "not paced by the nodes"
    if not network.is_shaped:
        return f"Network: loopback, links {pacing}, TCP {network.congestion_control}"
    limits = f" and {text.count(network.limited_nodes, 'node')}" if network.limited_nodes else ""
    return (
        f"Network: a namespace for each node, veth with MTU {network.mtu_bytes}, "
        f"{text.count(network.shaped_links, 'link')}{limits} shaped by TBF at capacity "
        f"(burst max({wiring.BURST_SECONDS * 1000:.0f} ms, {wiring.MIN_BURST_BYTES} bytes), latency "
        f"{wiring.LATENCY_SECONDS * 1000:.0f} ms), {pacing}, TCP {network.congestion_control}"
    )


def _totals(totals: Totals) -> str:
    return (
        f"minimum rate {text.rate(totals.min_bps)} Mbit/s, total rate {text.rate(totals.total_bps)} Mbit/s, "
        f"Jain's index {totals.jain:.4f}"
    )


def _print_comparison(outcome: RunOutcome, console: "Console") -> None:
    first, *baselines = outcome.policies
    table = text.table(
        "",
        *(f"{policy.policy}\ns" for policy in outcome.policies),
        *(f"gain over\n{baseline.policy}" for baseline in baselines),
    )
    gains = [outcome.gains(baseline) for baseline in baselines]
    for number, c in enumerate(first.collectives):
        table.add_row(
            f"{c.id} {c.tenant}",
            *(text.seconds(policy.collectives[number].measured_seconds) for policy in outcome.policies),
            *(text.times(gain[number]) for gain in gains),
            end_section=number == len(first.collectives) - 1,
        )
    table.add_row(
        "mean",
        *(text.seconds(policy.mean_seconds) for policy in outcome.policies),
        *(text.times(outcome.mean_gain(baseline)) for baseline in baselines),
        end_section=True,
    )
    none = [""] * len(baselines)
    measured = [policy.measured for policy in outcome.policies]
    table.add_row("minimum Mbit/s", *(text.rate(totals.min_bps) for totals in measured), *none)
    table.add_row("total Mbit/s", *(text.rate(totals.total_bps) for totals in measured), *none)
    table.add_row("Jain's index", *(f"{totals.jain:.4f}" for totals in measured), *none)
    names = " and ".join(baseline.policy for baseline in baselines)
    title = f"Measured completion, and how many times sooner {first.policy} is done than {names}"
    text.print_titled(console, title, table)
