"""Which trial next, and what do the trials prove? Pure: no process, clock or file."""
