"""DiLoCo: sites that train by themselves for hundreds of steps, and exchange what they changed.

The loop stays as it was; hooks of the inner optimizer do the rest::

    dist.init_process_group("square")  # between sites; a mesh inside a site stays local
    inner = torch.optim.AdamW(model.parameters(), lr=4e-4)
    with square.diloco.DiLoCo(model, inner, sync_every=500, compression="bf16") as diloco:
        for batch in batches:
            loss(model, batch).backward()
            diloco.consumed(batch.numel())
            inner.step()
            inner.zero_grad()

Douillard et al., DiLoCo, arXiv:2311.08105; fragments: Streaming DiLoCo, arXiv:2501.18512. Needs torch.
"""

from square.diloco.advice import Advice, Links, advise
from square.diloco.decoupled import Decoupled
from square.diloco.diloco import DiLoCo
from square.diloco.optimizer import DiLoCoOptimizer
from square.diloco.outer import Nesterov
from square.diloco.report import Exchange, Round

__all__ = [
    "Advice",
    "Decoupled",
    "DiLoCo",
    "DiLoCoOptimizer",
    "Exchange",
    "Links",
    "Nesterov",
    "Round",
    "advise",
]
