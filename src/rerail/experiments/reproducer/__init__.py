"""The smallest command that still fails, as a folder to hand on."""
