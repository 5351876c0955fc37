"""An investigation at work: trials are run, judged, kept and told."""
