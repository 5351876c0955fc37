"""What a dry run of a few steps says of the memory of the whole run."""
