"""Looks at nodes from outside, through the metrics that they serve."""
