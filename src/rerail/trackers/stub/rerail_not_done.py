"""The one exception of the files beside this one."""


class NotDone(Exception):
    """Why a run was left as it is, in words."""
