"""What can be told of an environment without running the command."""
