"""Environments for trials of other versions: the user's own but for one thing, built beside it."""
