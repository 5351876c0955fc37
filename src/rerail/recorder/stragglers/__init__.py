"""Ranks that hold the others up while the run lives: the slow one, and the one that is missing."""
