"""Square's errors as torch.distributed has them."""

from torch.distributed import DistBackendError

from square.errors import DeadlineExceededError, SquareError

BEHIND = "; `square doctor --operations` names the rank that is behind"


def backend_error(operation: str, group: str, rank: int, cause: Exception, more: str = "") -> Exception:
    """What to raise for a failure of `operation`; the text names group, rank and cause, then `more`."""
    error: Exception = cause
    if not isinstance(cause, DistBackendError):
        code = f"{cause.code}: " if isinstance(cause, SquareError) else ""
        # Words that Gloo uses too: programs look for them.
        how = "failed, Timed out on rank" if isinstance(cause, TimeoutError) else "failed on rank"
        more += BEHIND if isinstance(cause, DeadlineExceededError) else ""
        error = DistBackendError(f"square: {operation} of group {group!r} {how} {rank}: {code}{cause}{more}")
        error.__cause__ = cause
    return error
