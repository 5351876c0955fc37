"""rerail finds out why a training run died, proves it, and puts the run back on the rails."""

__version__ = "0.1.0"
