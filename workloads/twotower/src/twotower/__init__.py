"""A two-tower retriever; see README.md. Imports nothing, so that parts can be used alone."""
