"""A run that stands still: noticed, and everybody asked where they are."""
