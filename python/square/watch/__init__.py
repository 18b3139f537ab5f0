"""Looks at nodes and trainings from outside: through the metrics that nodes serve, and by asking masters."""
