"""Nodes that are not there, and those that are and say nothing."""

from collections.abc import Iterator

from square.doctor.facts import Node, Overlay
from square.doctor.finding import Finding, Severity


def not_there(overlay: Overlay) -> Iterator[Finding]:
    for node in overlay.nodes:
        if node.is_connected:
            continue
        if node.address:
            seen = f"its line to the controller at {overlay.address} broke, and it has not come back"
            remedy = f"see on its host whether the process runs and reaches {overlay.address}; start it again"
            yield Finding(Severity.ERROR, "presence.lost", f"node {node.name}", seen, remedy)
        else:
            seen = "the topology names it, and it has not joined: plans that need it wait for it"
            remedy = (
                f"start it: square node --name {node.name} --controller {overlay.address}; "
                "or take it out of the topology"
            )
            yield Finding(Severity.WARNING, "presence.missing", f"node {node.name}", seen, remedy)


def is_mute(node: Node) -> bool:
    """Connected, and did not answer."""
    return node.is_connected and node.report is None


def does_not_answer(overlay: Overlay) -> Iterator[Finding]:
    for node in filter(is_mute, overlay.nodes):
        outcomes = {attempt.outcome for _, attempt in overlay.attempts_at(node.name)}
        rule, seen, remedy = _why(outcomes, node.address)
        yield Finding(Severity.ERROR, f"presence.{rule}", f"node {node.name}", seen, remedy)


def _why(outcomes: set[str], address: str) -> tuple[str, str, str]:
    seen = "its line to the controller is up, but it did not answer in time"
    if "reached" in outcomes:
        return (
            "mute",
            f"{seen}, though it answers its peers at {address}",
            "its release may not know the question, or its host is too busy: try --timeout 60",
        )
    if "silent" in outcomes:
        return (
            "stopped",
            f"{seen}, and at {address} nobody speaks to who connects: its process is stopped or hangs",
            "see the process's state on its host (ps: T is stopped); kill -CONT, or start it anew",
        )
    return (
        "cut_off",
        f"{seen}, and none of its peers reaches it: its host is down, stopped or cut off",
        "see whether its host runs and has its network; then start the node again",
    )
