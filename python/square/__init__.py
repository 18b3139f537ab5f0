"""Square: fair and optimal collectives across datacenters.

Plan a scenario, then run its collectives over an overlay of uneven links::

    import square

    plan = square.plan("scenario.toml")
    print(plan.min_rate_bps / 1e6, "Mbit/s")

Rates are bits per second, times are seconds or ``datetime.timedelta``; ``None`` stands for
no limit. Errors are ``SquareError`` and its children in ``square.errors``.
"""

import importlib
from typing import TYPE_CHECKING, Any

from square import errors, log, metrics
from square._core import (
    AttachedNode,
    Authority,
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
    Identity,
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
    trim_process_memory,
    tune_process_memory,
)
from square.errors import SquareError
from square.planning import frontier, gaps, plan, quick_plan, simulate, validate, violations

__all__ = [
    "AttachedNode",
    "Authority",
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
    "Identity",
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
    "simulate",
    "trim_process_memory",
    "tune_process_memory",
    "validate",
    "violations",
]


if TYPE_CHECKING:
    from square.doctor import Examination, Finding, Severity, examine
else:  # for mypy everything would have any attribute
    _OF_DOCTOR = ("Examination", "Finding", "Severity", "examine")

    def __getattr__(name: str) -> Any:
        """`torch` and `diloco` need torch; `doctor` takes a third of the time of an import."""
        if name == "doctor" or name in _OF_DOCTOR:
            doctor = importlib.import_module("square.doctor")
            return doctor if name == "doctor" else getattr(doctor, name)
        if name in ("torch", "diloco"):
            try:
                return importlib.import_module(f"square.{name}")
            except ModuleNotFoundError as error:
                if error.name != "torch":
                    raise
                text = f"square.{name} needs torch, which is not installed: pip install 'square[torch]'"
                raise ModuleNotFoundError(text, name="torch") from error
        raise AttributeError(f"module 'square' has no attribute {name!r}")
