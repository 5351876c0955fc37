"""The C library as the stub sees it, and frameless wrappers of other people's functions.

Comes in: the path of the library. Goes out: `library` (None where it could not be loaded) and
`wrap`. Promises: a wrapped function behaves as before, also in tracebacks, warnings and pickles;
a hook that raises is taken out and noted.
"""

import rerail_box as box

library = None  # functions that may run without the interpreter's lock
_make = None


def load(path):
    global library, _make
    import ctypes

    library = ctypes.CDLL(path)
    library.rerail_start.restype = ctypes.c_void_p
    library.rerail_handler_of.restype = ctypes.c_void_p
    library.rerail_forget_handler_of.argtypes = (ctypes.c_int, ctypes.c_void_p)
    _make = ctypes.PyDLL(path).rerail_wrap
    _make.restype = ctypes.py_object
    _make.argtypes = (
        ctypes.py_object,
        ctypes.py_object,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_int,
    )


def view_of(address, size):
    import ctypes

    memory = (ctypes.c_char * size).from_address(address)
    return memory, memoryview(memory).cast("B")


def wrap(wrapped, before=None, after=None, is_method=False):
    """A callable like `wrapped` that calls before(args, kwargs) and after(args, kwargs, result).

    kwargs is None when there are none; result is Ellipsis when `wrapped` raised.
    """
    name = getattr(wrapped, "__name__", "function")

    def failed(kind, value):
        box.note_failure("hook on " + name + " is off", value)

    parts = [wrapped, before, after, failed]
    if _make is None:
        return _wrap_in_python(parts)
    try:
        doc = _signature_line(wrapped, name) + (getattr(wrapped, "__doc__", None) or "")
        return _make(
            parts,
            getattr(wrapped, "__module__", None),
            name.encode(),
            doc.encode() if doc else None,
            is_method,
        )
    except Exception as error:
        box.note_failure("frameless wrapper", error)
        return _wrap_in_python(parts)


def _wrap_in_python(parts):
    wrapped = parts[0]

    def run(which, *arguments):
        if parts[which] is not None:
            try:
                parts[which](*arguments)
            except Exception as error:
                parts[which] = None
                parts[3](type(error), error)

    def wrapper(*args, **kwargs):
        run(1, args, kwargs or None)
        result = ...
        try:
            result = wrapped(*args, **kwargs)
            return result
        finally:
            run(2, args, kwargs or None, result)

    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        try:
            setattr(wrapper, attribute, getattr(wrapped, attribute))
        except AttributeError:
            pass
    wrapper.__wrapped__ = wrapped
    return wrapper


def _signature_line(wrapped, name):
    """What lets inspect.signature answer for a built-in function; "" where it cannot be said."""
    known = getattr(wrapped, "__text_signature__", None)
    if known:
        return "%s%s\n--\n\n" % (name, known)
    code = getattr(wrapped, "__code__", None)
    if code is None:
        return ""
    names = list(code.co_varnames)
    positional = names[: code.co_argcount]
    keyword = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    rest = names[code.co_argcount + code.co_kwonlyargcount :]
    defaults = wrapped.__defaults__ or ()
    values = dict(zip(positional[len(positional) - len(defaults) :], defaults))  # noqa: B905  Python 3.8
    values.update(wrapped.__kwdefaults__ or {})
    if not all(isinstance(value, (type(None), bool, int, str)) for value in values.values()):
        return ""

    def show(argument):
        return "%s=%r" % (argument, values[argument]) if argument in values else argument

    parts = [show(argument) for argument in positional]
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    if code.co_flags & 4:
        parts.append("*" + rest.pop(0))
    elif keyword:
        parts.append("*")
    parts.extend(show(argument) for argument in keyword)
    if code.co_flags & 8:
        parts.append("**" + rest.pop(0))
    return "%s(%s)\n--\n\n" % (name, ", ".join(parts))
