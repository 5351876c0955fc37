"""The kernel's account of a death: limits, counters, log lines, core files, symbols."""
