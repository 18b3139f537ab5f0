"""Square as a backend of torch.distributed.

    torch.distributed.init_process_group("square")

needs no import of this package. Import it for :class:`Options`::

    torch.distributed.init_process_group("square", pg_options=square.torch.Options(tenant="alice"))
"""

from square_autoload import register

from square.torch.compression import compression_report
from square.torch.options import Options
from square.torch.process_group import ProcessGroup
from square.torch.regrouping import grow, invitation, join, shrink

register()

__all__ = [
    "Options",
    "ProcessGroup",
    "compression_report",
    "grow",
    "invitation",
    "join",
    "register",
    "shrink",
]
