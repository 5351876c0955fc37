"""An address without what is secret about it, for a record that others may read.

Used inside the program by the hooks on trackers, and after its death by the process that closes its
runs there, which compares with what the first one wrote down. Standard library only.
"""


def without_login(uri):
    """Without name and password, and without the query, where some put them."""
    before, sign, rest = str(uri).partition("://")
    if not sign or rest.startswith("/"):
        return str(uri)
    if before.startswith("http"):
        host, slash, path = rest.partition("/")
        rest = host.rpartition("@")[2] + slash + path
    else:  # SQLAlchemy takes a password with a slash or a question mark in it
        rest = rest.rpartition("@")[2]
    return before + sign + rest.partition("?")[0]
