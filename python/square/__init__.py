"""Square: fair and optimal collectives across datacenters.

Plan a scenario, then run its collectives over an overlay of uneven links::

    import square

    plan = square.plan("scenario.toml")
    print(plan.min_rate_bps / 1e6, "Mbit/s")

Rates are bits per second, times are seconds or ``datetime.timedelta``; ``None`` stands for
no limit. Errors are ``SquareError`` and its children in ``square.errors``.
"""

from square import errors, log, metrics
from square._core import (
    AttachedNode,
    CodedBlock,
    Collective,
    Communicator,
    Compression,
    CompressionReport,
    Controller,
    Decoder,
    Encoder,
    ErrorFeedback,
    FrontierPoint,
    Generation,
    LevelGap,
    LimitDemand,
    LimitedResource,
    LimitingCut,
    LimitPart,
    LimitProof,
    Limits,
    Node,
    Plan,
    Planner,
    Policy,
    Recoder,
    Scenario,
    Tenant,
    Topology,
    Work,
    __version__,
    attach,
    limits,
    limits_of_collectives,
    list_links,
    list_nodes,
    policy_names,
    tune_process_memory,
)
from square.doctor import Examination, Finding, Severity, examine
from square.errors import SquareError
from square.planning import frontier, gaps, plan, quick_plan, validate, violations

__all__ = [
    "AttachedNode",
    "CodedBlock",
    "Collective",
    "Communicator",
    "Compression",
    "CompressionReport",
    "Controller",
    "Decoder",
    "Encoder",
    "ErrorFeedback",
    "Examination",
    "Finding",
    "FrontierPoint",
    "Generation",
    "LevelGap",
    "LimitDemand",
    "LimitPart",
    "LimitProof",
    "LimitedResource",
    "LimitingCut",
    "Limits",
    "Node",
    "Plan",
    "Planner",
    "Policy",
    "Recoder",
    "Scenario",
    "Severity",
    "SquareError",
    "Tenant",
    "Topology",
    "Work",
    "__version__",
    "attach",
    "errors",
    "examine",
    "frontier",
    "gaps",
    "limits",
    "limits_of_collectives",
    "list_links",
    "list_nodes",
    "log",
    "metrics",
    "plan",
    "policy_names",
    "quick_plan",
    "tune_process_memory",
    "validate",
    "violations",
]
