"""Who failed first: one model, one order of rules, and an adapter for each source."""
