"""Figures, each measured as a ratio in one run on one machine: `python -m benchmarks [NAME...]`."""
