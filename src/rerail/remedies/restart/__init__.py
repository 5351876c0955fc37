"""Going on after a death: which remedy, from which checkpoint, and whether it is worth it."""
