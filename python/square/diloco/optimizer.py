"""DiLoCo in OpenDiLoCo's style: an optimizer around the inner one."""

from collections.abc import Callable, Iterable
from typing import Any

from square.diloco.diloco import DiLoCo
from square.diloco.outer import Outer


class DiLoCoOptimizer:
    """Takes the place of the inner optimizer in the loop: step(), zero_grad(), state_dict().

    `params` are parameters, or pairs of names and parameters; `inner_optimizer` and `outer_optimizer` make an
    optimizer of parameters. Other arguments are DiLoCo's. Blocks until all members have made theirs.
    """

    def __init__(
        self,
        params: Iterable[Any],
        group: Any = None,
        num_inner_steps: int = 500,
        inner_optimizer: Callable[[Iterable[Any]], Any] | None = None,
        outer_optimizer: Outer | None = None,
        **options: Any,
    ) -> None:
        if inner_optimizer is None:
            raise ValueError("DiLoCoOptimizer: inner_optimizer makes the inner optimizer of parameters")
        named = [one if isinstance(one, tuple) else (f"parameter {i}", one) for i, one in enumerate(params)]
        self.inner = inner_optimizer([parameter for _, parameter in named])
        self.diloco = DiLoCo(
            named, self.inner, group=group, sync_every=num_inner_steps, outer=outer_optimizer, **options
        )
        self.diloco.__enter__()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The inner optimizer's, for schedulers of the learning rate."""
        groups: list[dict[str, Any]] = self.inner.param_groups
        return groups

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        return self.inner.step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.inner.zero_grad(set_to_none=set_to_none)

    def close(self) -> None:
        """Waits for what is under way; later steps are the inner optimizer's alone."""
        self.diloco.__exit__(None)

    def state_dict(self) -> dict[str, Any]:
        """Of both."""
        return {"inner": self.inner.state_dict(), "outer": self.diloco.state_dict()}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """All members, alike. Raises ValueError for another model's."""
        self.diloco.load_state_dict(saved["outer"])
        self.inner.load_state_dict(saved["inner"])
