"""The user's own edits and commits as changes: what git knows, and folders to run them in."""
