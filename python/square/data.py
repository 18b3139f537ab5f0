"""What a communicator's operations take as memory."""

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import Buffer


class SupportsDLPack(Protocol):
    """A tensor that hands out its memory by DLPack, as torch's and NumPy's do."""

    def __dlpack__(self) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


Data: TypeAlias = "Buffer | SupportsDLPack"
