"""Every error of Square, by the canonical code that it has in C++ and on the wire."""

from typing import ClassVar


class SquareError(Exception):
    """What every error of Square is. Its text says what failed, where, and what to do.

    Each child also derives from the built-in that fits, so that ``except ValueError`` or
    ``except TimeoutError`` work as one would guess.
    """

    code: ClassVar[str] = "UNKNOWN"


class CancelledError(SquareError, RuntimeError):
    """Somebody ended the operation."""

    code = "CANCELLED"


class UnknownError(SquareError, RuntimeError):
    """An error without a code, from a foreign library."""

    code = "UNKNOWN"


class InvalidArgumentError(SquareError, ValueError):
    """What was asked for makes no sense, whatever the state of the system."""

    code = "INVALID_ARGUMENT"


class DeadlineExceededError(SquareError, TimeoutError):
    """It took longer than the caller wanted to wait."""

    code = "DEADLINE_EXCEEDED"


class NotFoundError(SquareError, LookupError):
    """A file, a node or another thing that was named is not there."""

    code = "NOT_FOUND"


class AlreadyExistsError(SquareError, ValueError):
    """The name is taken."""

    code = "ALREADY_EXISTS"


class PermissionDeniedError(SquareError, PermissionError):
    """The caller may not do this."""

    code = "PERMISSION_DENIED"


class ResourceExhaustedError(SquareError, RuntimeError):
    """A named bound was reached."""

    code = "RESOURCE_EXHAUSTED"


class FailedPreconditionError(SquareError, RuntimeError):
    """The system is not in the state that the call needs."""

    code = "FAILED_PRECONDITION"


class AbortedError(SquareError, RuntimeError):
    """Another call got in the way."""

    code = "ABORTED"


class OutOfRangeError(SquareError, IndexError):
    """Past the end."""

    code = "OUT_OF_RANGE"


class UnimplementedError(SquareError, NotImplementedError):
    """This release cannot do it."""

    code = "UNIMPLEMENTED"


class InternalError(SquareError, RuntimeError):
    """A promise inside Square was broken."""

    code = "INTERNAL"


class UnavailableError(SquareError, ConnectionError):
    """A peer, a controller or an address cannot be reached."""

    code = "UNAVAILABLE"


class DataLossError(SquareError, OSError):
    """Bytes were lost or damaged."""

    code = "DATA_LOSS"


class UnauthenticatedError(SquareError, PermissionError):
    """The token is missing or wrong."""

    code = "UNAUTHENTICATED"


# By the number of the canonical code; 0 is success and no error.
BY_CODE: dict[int, type[SquareError]] = {
    1: CancelledError,
    2: UnknownError,
    3: InvalidArgumentError,
    4: DeadlineExceededError,
    5: NotFoundError,
    6: AlreadyExistsError,
    7: PermissionDeniedError,
    8: ResourceExhaustedError,
    9: FailedPreconditionError,
    10: AbortedError,
    11: OutOfRangeError,
    12: UnimplementedError,
    13: InternalError,
    14: UnavailableError,
    15: DataLossError,
    16: UnauthenticatedError,
}
