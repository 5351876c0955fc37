"""Observations from the records of a run folder."""
