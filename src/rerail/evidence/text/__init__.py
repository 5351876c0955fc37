"""Observations from the text of any log."""
