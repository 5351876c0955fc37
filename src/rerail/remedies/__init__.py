"""Remedies: apply one, prove it, and go on from the newest checkpoint that really loads.

`choose_checkpoint`, `run_with_restarts` and `verify` are the doors; they are imported from their
modules, so that nobody waits for those that are not needed.
"""
