"""Nodes that do not get the processor they need."""

from collections.abc import Iterator

from square.doctor.facts import Node, Overlay, Processor
from square.doctor.finding import Finding, Severity

# A node gets so much less of one processor than what the host's load leaves to each: it is not the load.
UNFAIR = 0.2
# Less than this of one processor is little for any node, whoever is guilty.
LITTLE = 0.12
# Of the time that was looked at, the control group had used up its part.
THROTTLED = 0.2


def short_of_processor(overlay: Overlay) -> Iterator[Finding]:
    """By what a few bursts of computing got, each longer than a scheduler's turn, the best of them."""
    for node, report in overlay.reports():
        processor = report.processor
        throttled = processor.throttled_seconds / processor.seconds if processor.seconds else 0.0
        if throttled > THROTTLED:
            yield _throttled(node, processor, throttled)
        elif processor.share is None:
            continue
        elif processor.share < UNFAIR * fair_share(processor):
            yield _unfair(node, processor, processor.share)
        elif processor.share < LITTLE:
            yield _crowded(node, processor, processor.share)


def fair_share(processor: Processor) -> float:
    """Of one processor, for each of those that run on the host."""
    count = processor.count or 1
    return count / max(count, processor.load or 0.0, processor.running or 0.0)


def _throttled(node: Node, processor: Processor, part: float) -> Finding:
    quota = f"{processor.quota:.2g} processors" if processor.quota else "its part"
    return Finding(
        Severity.ERROR,
        "processor.quota",
        f"node {node.name}",
        f"its control group may use {quota}, and for that stood still {100 * part:.0f}% of the time",
        "raise the limit (cpu.max, CPUQuota=, --cpus, the pod's limit) or leave it out",
    )


def _unfair(node: Node, processor: Processor, share: float) -> Finding:
    why = ""
    if processor.nice is not None and processor.nice > 0:
        why = f"; its priority is low (nice {processor.nice})"
    elif processor.allowed and processor.count and processor.allowed < processor.count:
        why = f"; it may use {processor.allowed} of {processor.count} processors"
    return Finding(
        Severity.ERROR,
        "processor.share",
        f"node {node.name}",
        f"it got {100 * share:.2g}% of a processor while it had work, where its host's load leaves "
        f"{100 * fair_share(processor):.2g}% to each{why}",
        "start it without nice, give it processors that others do not use (taskset, cpuset) or a larger "
        "weight (cpu.weight, CPUWeight=); see whether something stops it now and then",
    )


def _crowded(node: Node, processor: Processor, share: float) -> Finding:
    busy = max(processor.load or 0.0, processor.running or 0.0)
    return Finding(
        Severity.WARNING,
        "processor.crowded",
        f"node {node.name}",
        f"it got {100 * share:.2g}% of a processor while it had work: its host runs {busy:.0f} threads on "
        f"{processor.count} processors",
        "move other work off its host, or give the node a larger weight (cpu.weight, CPUWeight=)",
    )
