"""What became of a round."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Round:
    """One exchange of one fragment, as this member saw it."""

    number: int  # of the fragment, from 1; of a lost one, what it would have had
    fragment: int
    inner_step: int  # of this member, when it was over
    members: int
    weight: float  # this member's part of the average
    excluded: tuple[int, ...]  # ranks whose change had a NaN or an infinity, or no weight
    norm: float  # L2, of the average of this member's shard; 0 of a lost one
    size_bytes: int  # of what was given, before compression
    waited_seconds: float  # of the inner loop, for it
    loss: str = ""  # why it is lost; its work comes with the next one

    @property
    def is_lost(self) -> bool:
        return bool(self.loss)


@dataclass(frozen=True)
class Exchange:
    """What came of a push in the decoupled mode, as this member saw it."""

    number: int  # the version that the model goes on from
    inner_step: int  # of this member, when it was over
    outcome: str  # "adopted", "skipped", "refused" or "goes on": as of square.ps.Sync
    decision: str  # where it is in a version: "taken", or "non-finite", which counts for nothing
    waited_seconds: float  # of the inner loop, for it
    loss: str = ""  # why it is in no version; unless it was refused, its work comes with the next one

    @property
    def is_lost(self) -> bool:
        return self.outcome in ("skipped", "refused")
