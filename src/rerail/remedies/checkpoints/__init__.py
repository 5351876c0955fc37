"""Which checkpoint really loads, found out without executing anything in it."""
