"""Running the command: its streams, terminal and signals, and what is written when it ends."""
