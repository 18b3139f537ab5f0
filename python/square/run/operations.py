"""Which members of a collective give something, and which have something to show for it."""

from square._core import CollectiveView, Scenario

SUMS = ("reduce", "all_reduce")
OPERATIONS = ("broadcast", *SUMS)


def is_ring(collective: CollectiveView) -> bool:
    return collective.op == "all_reduce" and collective.algorithm == "ring"


def without_rings(scenario: Scenario) -> Scenario:
    """A copy for the controller: of a ring its members register the parts, each from one to the next."""
    copy = scenario.copy()
    for collective in scenario.collectives:
        if is_ring(collective):
            copy.remove_collective(collective.id)
    return copy


def gives(op: str, rank: int, root_rank: int | None) -> bool:
    """Whether the member's bytes are part of the result."""
    return op != "broadcast" or rank == root_rank


def gets(op: str, rank: int, root_rank: int | None) -> bool:
    """Whether the result is written to the member."""
    match op:
        case "broadcast":
            return rank != root_rank
        case "reduce":
            return rank == root_rank
        case _:
            return True


def results(op: str, members: int) -> int:
    """How many members get the result."""
    return {"broadcast": members - 1, "reduce": 1}.get(op, members)


def buffers(op: str, members: int) -> int:
    """How many buffers all members have together: a sum's inputs stay as they are."""
    return members if op == "broadcast" else members + results(op, members)
