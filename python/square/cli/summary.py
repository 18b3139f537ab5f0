"""A plan, for people."""

import math
from typing import TYPE_CHECKING

from square._core import Plan, PlanCollective
from square.cli import assumption, bottlenecks, text, trees, trusted
from square.cli.parts import Parts
from square.planning import gaps as certified_gaps
from square.run.outcome import ratio

if TYPE_CHECKING:
    from rich.console import Console

MAX_TENANTS = 30
MAX_COLLECTIVES = 60
MAX_CHANGES = 20
# Rates that differ by less are the same; as plans are checked.
TOLERANCE = 1e-6
# A gap below this is rounding.
ROUNDING = 1e-12


def print_plan(plan: Plan, name: str, console: "Console") -> None:
    parts = Parts(plan)
    console.print(
        f"scenario {name}: {text.count(len(plan.nodes), 'node')}, {text.count(len(plan.links), 'link')}, "
        f"{text.count(len(plan.collectives), 'collective')}, planned by {plan.policy} in "
        f"{1000 * plan.solve_seconds:.1f} ms"
    )
    if not plan.realised:
        console.print("Rates only: there are no streams, so nothing can run by this plan.")
    if plan.provisional:
        console.print("A quick plan: it fits, and a better one may exist.")
    for sentence in assumption.of_plan(plan):
        console.print(sentence)
    console.print()
    _print_tenants(plan, console)
    _print_collectives(parts, console)
    bottlenecks.print_limits(parts, console)
    trees.print_sessions(plan, console)
    trusted.print_trusted(plan, console)
    bottlenecks.print_links(parts, console)
    _print_changes(plan, console)
    _print_totals(plan, parts, console)


def _print_tenants(plan: Plan, console: "Console") -> None:
    if not plan.realised:
        return
    table = text.table("tenant", "weight", "Mbit/s")
    for tenant in plan.tenants[:MAX_TENANTS]:
        table.add_row(tenant.name, f"{tenant.weight:g}", text.rate(tenant.rate_bps))
    text.print_titled(console, "Tenants", table)
    _print_rest(len(plan.tenants) - MAX_TENANTS, "tenant", console)


def _print_collectives(parts: Parts, console: "Console") -> None:
    collectives = list(parts.collectives.values())
    rates = _rate_columns(parts, collectives)
    weight = ("weight",) if any(collective.weight != 1 for collective in collectives) else ()
    table = text.table(
        "id",
        "tenant",
        "operation",
        "root",
        "members",
        *weight,
        "MB",
        *(f"{name}\nMbit/s" for name in rates),
        "bound\nMbit/s",
        "rate/\nbound",
        *(("takes\ns", "streams") if parts.realised else ()),
        *(("cost\nUSD/h",) if parts.plan.cost_usd_per_hour > 0 else ()),
        left=4,
    )
    for collective in collectives[:MAX_COLLECTIVES]:
        bound = _bound_bps(parts, collective)
        both = {"lp rate": collective.lp_rate_bps, "rate": collective.rate_bps}
        streams = sum(len(parts.sessions[number].streams) for number in collective.sessions)
        table.add_row(
            str(collective.id),
            collective.tenant,
            collective.op,
            _root_of(parts, collective),
            str(max(len(_members_of(parts, collective)), 1)),
            *((f"{collective.weight:g}",) if weight else ()),
            text.size(collective.size_bytes),
            *(text.rate(both[name]) for name in rates),
            text.rate(bound),
            parts.share_of_bound(collective, bound),
            *((text.seconds(collective.completion_seconds), str(streams)) if parts.realised else ()),
            *((text.figure(collective.cost_usd_per_hour),) if parts.plan.cost_usd_per_hour > 0 else ()),
        )
    text.print_titled(console, "Collectives", table)
    _print_rest(len(collectives) - MAX_COLLECTIVES, "collective", console)


def _bound_bps(parts: Parts, collective: PlanCollective) -> float:
    """Without streams nobody keeps a rate, so that it is what the level allows."""
    if not parts.realised:
        for level in parts.levels:
            if collective.id in level.collectives:
                return level.bound_bps * collective.weight
    return collective.bound_bps


def _members_of(parts: Parts, collective: PlanCollective) -> set[str]:
    return {name for number in collective.sessions for name in parts.sessions[number].members}


def _rate_columns(parts: Parts, collectives: list[PlanCollective]) -> tuple[str, ...]:
    """What the linear program allows is shown where streams carry less, or where there are none."""
    if not parts.realised:
        return ("lp rate",)
    falls_short = any(
        math.isfinite(c.lp_rate_bps) and c.rate_bps < c.lp_rate_bps * (1.0 - TOLERANCE) for c in collectives
    )
    return ("lp rate", "rate") if falls_short else ("rate",)


def _root_of(parts: Parts, collective: PlanCollective) -> str:
    if collective.op not in ("broadcast", "reduce") or not collective.sessions:
        return "-"
    return parts.sessions[collective.sessions[0]].root


def _print_changes(plan: Plan, console: "Console") -> None:
    if plan.changes is None:
        return
    if not plan.changes:
        console.print("No collective changed since the plan before: the same rates over the same streams.")
        console.print()
        return
    table = text.table("collective", "change", "before\nMbit/s", "after\nMbit/s", left=2)
    for change in plan.changes[:MAX_CHANGES]:
        table.add_row(
            str(change.collective),
            change.kind,
            "-" if change.kind == "joined" else text.rate(change.rate_before_bps),
            "-" if change.kind == "left" else text.rate(change.rate_after_bps),
        )
    text.print_titled(console, "Changes since the plan before", table)
    _print_rest(len(plan.changes) - MAX_CHANGES, "change", console)


def _print_totals(plan: Plan, parts: Parts, console: "Console") -> None:
    rates = [parts.rate_bps(collective) for collective in parts.collectives.values()]
    rates = [rate for rate in rates if math.isfinite(rate)]
    console.print(f"minimum rate   {text.rate(min(rates, default=0.0))} Mbit/s")
    console.print(f"total rate     {text.rate(sum(rates))} Mbit/s")
    if plan.realised:
        console.print(f"Jain's index   {plan.jain:.4f}  (of rate / weight; 1 is even)")
        streams = [len(session.streams) for session in parts.sessions.values()]
        console.print(
            f"streams        {sum(streams)} in {text.count(len(streams), 'session')}, "
            f"at most {max(streams, default=0)} in one"
        )
    level = parts.level_bound_bps
    if level is not None and math.isfinite(level):
        console.print(
            f"level bound    {text.rate(level)} Mbit/s  (no plan at all has a larger least rate / weight)"
        )
    _print_gaps(plan, parts, console)
    _print_cost(parts, console)
    _print_headroom(plan, rates, console)


def _print_gaps(plan: Plan, parts: Parts, console: "Console") -> None:
    if not parts.levels:
        return
    gaps = certified_gaps(plan)
    if not gaps:
        return
    of_rates = f", {_gap(max(gap.rate_gap for gap in gaps))} of rates" if plan.realised else ""
    console.print(
        f"certified gap  {_gap(max(gap.lp_gap for gap in gaps))} of lp rates{of_rates}  "
        f"(the worst of {text.count(len(gaps), 'level')})"
    )


def _gap(value: float) -> str:
    return "0" if value <= ROUNDING else f"{value:.1e}" if math.isfinite(value) else "open"


def _print_cost(parts: Parts, console: "Console") -> None:
    bound = parts.cost_bound_usd_per_hour
    budget = parts.plan.budget_usd_per_hour
    if parts.plan.cost_usd_per_hour == 0 and bound is None and budget is None:
        return
    said = [
        f"{parts.plan.cost_usd_per_hour:.4f} USD an hour" if parts.realised else "without streams, unknown"
    ]
    if budget is not None:
        said.append(f"the budget is {budget:.4f}")
    if bound is not None:
        said.append(f"no plan with these rates costs less than {bound:.4f}")
    console.print(f"cost           {'; '.join(said)}")


def _print_headroom(plan: Plan, rates: list[float], console: "Console") -> None:
    if plan.headroom is None:
        return
    headroom = plan.headroom
    least = _loss(min(rates, default=0.0), headroom.nominal_min_rate_bps)
    total = _loss(sum(rates), headroom.nominal_total_rate_bps)
    kept = "1 standard deviation of each capacity is"
    if headroom.deviations != 1:
        kept = f"{headroom.deviations:g} standard deviations of each capacity are"
    console.print(
        f"headroom       {kept} kept free, at the price of {least} of the minimum rate "
        f"({text.rate(headroom.nominal_min_rate_bps)} Mbit/s without) "
        f"and {total} of the total ({text.rate(headroom.nominal_total_rate_bps)})"
    )


def _loss(rate_bps: float, nominal_bps: float) -> str:
    lost = 1.0 - ratio(rate_bps, nominal_bps)
    # A total may also grow where the minimum falls.
    return text.percent(lost) if math.isfinite(lost) else "nothing"


def _print_rest(number: int, what: str, console: "Console") -> None:
    if number > 0:
        console.print(f"... and {number} more {what}{'s' if number > 1 else ''}; --json lists them")
        console.print()
