"""A small segmentation toolkit: registry, callbacks, YAML."""
