from . import blobs  # noqa: F401
