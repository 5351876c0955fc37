"""The command's processes: who they are, where they came from, how each ended."""
