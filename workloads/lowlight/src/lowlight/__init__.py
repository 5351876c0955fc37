"""Low-light enhancement in HVI; see README.md. Imports nothing: parts can be used alone."""
