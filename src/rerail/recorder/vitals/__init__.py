"""What the tree and the machine use, sampled while they live."""
