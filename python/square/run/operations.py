"""Which members of a collective give something, and which have something to show for it."""

SUMS = ("reduce", "all_reduce")
OPERATIONS = ("broadcast", *SUMS)


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
