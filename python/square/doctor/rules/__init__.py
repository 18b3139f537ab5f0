"""From facts to findings: a rule is a function that looks at an overlay's facts, and one that finds nothing
wrong yields nothing. Each fault is told by one rule: those of ``reach`` leave to ``presence`` and
``addresses`` what these explain."""

from collections.abc import Callable, Iterable

from square.doctor.facts import Overlay
from square.doctor.finding import Finding
from square.doctor.rules.addresses import loopback_between_hosts, somebody_else_answers
from square.doctor.rules.capacities import slower_than_given, slower_than_planned
from square.doctor.rules.clocks import clocks_differ
from square.doctor.rules.limits import few_files, little_memory
from square.doctor.rules.networks import congestion_differs, small_buffers
from square.doctor.rules.presence import does_not_answer, not_there
from square.doctor.rules.processors import short_of_processor
from square.doctor.rules.reach import not_reached
from square.doctor.rules.relays import loses_blocks, refused_before
from square.doctor.rules.security import (
    blocks_are_changed,
    blocks_go_unsealed,
    certificates_end,
    nobody_is_known,
)
from square.doctor.rules.versions import versions_differ

Rule = Callable[[Overlay], Iterable[Finding]]

RULES: tuple[Rule, ...] = (
    not_there,
    does_not_answer,
    loopback_between_hosts,
    somebody_else_answers,
    not_reached,
    loses_blocks,
    refused_before,
    versions_differ,
    clocks_differ,
    slower_than_given,
    slower_than_planned,
    small_buffers,
    congestion_differs,
    few_files,
    little_memory,
    short_of_processor,
    certificates_end,
    blocks_go_unsealed,
    blocks_are_changed,
)
# Who starts an overlay with --insecure is told so then: here, who asks.
SECURITY_RULES: tuple[Rule, ...] = (
    certificates_end,
    nobody_is_known,
    blocks_go_unsealed,
    blocks_are_changed,
)
