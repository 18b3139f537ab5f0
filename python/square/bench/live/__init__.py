"""Experiments on an overlay that lives: tenants come and go, links fade, relays die, controllers restart.

Every site is a process in a network namespace of its own, links are shaped by the kernel, tenants send
without a pause, and what arrives is compared.
"""

from square.bench.live.course import Course, Curve, Verdict
from square.bench.live.experiments import EXPERIMENTS, Experiment

__all__ = ["EXPERIMENTS", "Course", "Curve", "Experiment", "Verdict"]
