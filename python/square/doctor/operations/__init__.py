"""Flight records of a group's ranks, merged: which rank is behind, or called something else.

``records`` reads the files and asks living processes for new ones, ``merging`` compares them, ``explanation``
says in one line what it finds.
"""

from square.doctor.operations.merging import Group, merge
from square.doctor.operations.records import Operation, Record, collect

__all__ = ["Group", "Operation", "Record", "collect", "merge"]
