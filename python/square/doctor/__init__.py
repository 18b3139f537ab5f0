"""What is wrong with an overlay, who is guilty, and what to do: ``square.examine`` and ``square doctor``.

Facts are collected by the nodes themselves (``asking``), put into words by :mod:`square.doctor.facts`, and
judged by the functions of :mod:`square.doctor.rules`, which look at nothing but the facts.
"""

from square.doctor.asking import Examination, examine
from square.doctor.diagnosis import diagnose
from square.doctor.facts import Overlay
from square.doctor.finding import Finding, Severity

__all__ = ["Examination", "Finding", "Overlay", "Severity", "diagnose", "examine"]
