"""One recorded run of the user's command with changes: set up, shielded, driven and judged."""
