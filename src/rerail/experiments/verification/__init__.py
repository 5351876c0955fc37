"""Is the fix proven? Runs until the confidence asked for is reached, or it is refuted."""
