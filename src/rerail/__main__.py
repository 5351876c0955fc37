"""`rerail` and `python -m rerail`: the command line, and under it the command itself.

Whatever fails before the command of a `rerail run` was started, an import of our own included, the
command is run bare (`rerail.bare`). So this module imports next to nothing by itself.
"""

import sys

import rerail

if sys.platform == "win32":  # before anything that is not there
    sys.exit(rerail.ON_WINDOWS)

from rerail import bare


def main() -> int:
    """Run one command of rerail; its exit status."""
    bare.fill_closed_descriptors()
    bare.give_back_variables()
    try:
        if bare.arm(sys.argv[1:]):
            from rerail.room import lacking

            if why := lacking():
                return bare.run(why)
        from rerail.cli import main as command_line

        return command_line()
    except KeyboardInterrupt:
        return 130
    except SystemExit:
        raise
    except BaseException as error:
        if bare.is_armed():
            return bare.run(bare.in_one_line(error))
        bare.say(f"a defect of rerail itself: {bare.in_one_line(error)}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
