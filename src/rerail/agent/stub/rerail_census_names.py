"""By what name does the program know a thing? Local variables, globals, attributes, closures.

Comes in: the frame that made a step; afterwards a finished walk and the index of a container in
it. Goes out: where the walk begins, and the container's name with its function, file and line.
Promises: a link that cannot be named for certain gives no name at all; a frame's variables are read
without leaving a reference in it, and not read where that cannot be had.
"""

import functools
import os
import sys
import types
from collections import deque

_IS_FUNCTION = 1  # CO_OPTIMIZED: variables are not a dictionary
_READS_LOCALS = frozenset(("locals", "vars", "exec", "eval", "dir"))
_LIBRARIES = (os.path.dirname(os.__file__) + "/", os.path.dirname(__file__) + "/", "<frozen")
_GROWS = frozenset(
    ("append", "appendleft", "extend", "add", "update", "insert", "setdefault", "put")
)
_module_of = type.__dict__["__module__"].__get__
_mro_of = type.__dict__["__mro__"].__get__
_dict_of_type = type.__dict__["__dict__"].__get__
_dict_of_module = types.ModuleType.__dict__["__dict__"].__get__
_name_of_type = type.__dict__["__name__"].__get__
_HAVE_ELEMENTS = (list, tuple, dict, set, frozenset, deque)
_CELL = type((lambda x: lambda: x)(0).__closure__[0])
_LRU = functools._lru_cache_wrapper


def is_library(path):
    return path.startswith(_LIBRARIES) or "/site-packages/" in path or "/dist-packages/" in path


class Roots:
    """What the program can name without going through anything else."""

    def __init__(self, frame, is_worker):
        self.values = []
        self.labels = []  # (kind, name, file, codes that may make it grow, code)
        self.user_modules = {}  # name -> globals
        modules = [] if is_worker else list(sys.modules.items())
        others = []
        for name, module in modules:
            if type(module) is not types.ModuleType or name.startswith("rerail_"):
                continue
            variables = _dict_of_module(module)
            file = variables.get("__file__")
            if name == "__main__" or (type(file) is str and not is_library(file)):
                self.user_modules[name] = variables
            elif type(file) is str:
                others.append((name, file, variables))
        self.module_codes = {}  # id of globals -> code of the module that is being run
        later = []
        while frame is not None:
            code = frame.f_code
            if not code.co_flags & _IS_FUNCTION:
                self.module_codes[id(frame.f_globals)] = code
            elif is_library(code.co_filename):
                later.append(frame)
            else:
                self._take_frame(frame, self.values, self.labels)
            frame = frame.f_back
        for name, variables in self.user_modules.items():
            self._take_globals(name, variables, self.values, self.labels)
        if is_worker:
            for each in later:
                self._take_frame(each, self.values, self.labels)
        self._further_globals = others
        del later, frame

    def _take_frame(self, frame, values, labels):
        code = frame.f_code
        for name, value in local_variables(frame):
            values.append(value)
            labels.append(("local", name, code.co_filename, (code,), code))

    def _take_globals(self, module, variables, values, labels):
        file = variables.get("__file__")
        file = file if type(file) is str else module
        for name, value in list(variables.items()):
            if type(name) is str and not name.startswith("__"):
                values.append(value)
                labels.append(("global", name, file, variables, module))

    def library_containers(self, is_wanted):
        """(value, label) of libraries' globals: their containers and caches alone."""
        for module, file, variables in self._further_globals:
            for name, value in list(variables.items()):
                if is_wanted(type(value)) and type(name) is str and not name.startswith("__"):
                    yield value, ("global", name, file, None, module)

    def is_passed_over(self, kind, o):
        """Modules, and classes that are not the program's own."""
        if issubclass(kind, types.ModuleType):
            return True
        if issubclass(kind, type):
            module = _module_of(o)
            return type(module) is not str or module not in self.user_modules
        return False

    def forget(self):
        self.values, self.labels = [], []
        self.user_modules, self.module_codes = {}, {}
        self._further_globals = []


def local_variables(frame):
    """(name, value) of a function's frame.

    Until Python 3.12 the answer is a dictionary that stays with the frame and would keep everything
    in it alive: it is emptied again. A function that could have it in hand is left alone.
    """
    if sys.version_info >= (3, 13):
        return list(frame.f_locals.items())
    if sys.gettrace() is not None or _READS_LOCALS.intersection(frame.f_code.co_names):
        return []
    snapshot = frame.f_locals
    try:
        return list(snapshot.items())
    finally:
        snapshot.clear()


def name_of(walk, at):
    """Name, kind of name, file, function, line and the whole path; {} where a link has no name."""
    chain = [at]
    while walk.parents[chain[-1]] >= 0:
        chain.append(walk.parents[chain[-1]])
    name = Name(walk.roots, walk.roots.labels[-1 - walk.parents[chain[-1]]])
    chain.reverse()
    things = [walk.objects[index] for index in chain]
    for parent, child in zip(things, things[1:]):  # noqa: B905, RUF007  Python 3.8
        if not name.follow(parent, child):
            return {}
    if name.owner is not None:
        return {}  # the attributes themselves are what grew
    name.find_line()
    return name.told


class Name:
    """What is known of a thing, from a root on, link by link."""

    def __init__(self, roots, label):
        kind, name, file, codes, where = label
        self.told = {"of": kind, "name": name, "file": file, "path": name}
        self.owner = None  # of whose attributes the next link is one
        self.is_element = False
        if kind == "local":
            self.told["function"] = where.co_name
            self.find = lambda: codes
        else:
            self.told["module"] = where
            self.find = lambda: _codes_of_module(codes, roots)
        self.word = name

    def follow(self, parent, child):
        """Go on from `parent` to `child`; False where it is not certain how."""
        kind = type(parent)
        if self.owner is not None:
            owner, self.owner = self.owner, None
            word = _key_of(parent, child)
            return word is not None and self._attribute(owner, word)
        if kind is _CELL or kind is types.MethodType or kind is functools.partial:
            return True
        if kind is types.FunctionType:
            return self._variable(parent, child)
        if kind is _LRU:
            return self._cache(parent, child)
        if issubclass(kind, type):
            self.owner = parent
            return type(child) is dict and child.keys() == _dict_of_type(parent).keys()
        attributes = attributes_of(parent)
        if attributes is not None:
            if attributes is child:
                self.owner = parent
                return True
            word = _key_of(attributes, child)
            if word is not None:
                return self._attribute(parent, word)
        word = _slot_of(parent, child)
        if word is not None:
            return self._attribute(parent, word)
        return issubclass(kind, _HAVE_ELEMENTS) and self._element()

    def _element(self):
        if not self.is_element:
            self.told["name"] += "[...]"
            self.told["path"] += "[...]"
        self.is_element = True
        return True

    def _attribute(self, owner, word):
        is_class = issubclass(type(owner), type)
        cls = owner if is_class else type(owner)
        owner_name = _name_of_type(cls)
        name = (owner_name if is_class else "self") + "." + word
        self._now("attribute", name, word, lambda: _codes_of_class(cls))
        self.told["path"] += "." + word
        self.told["owner"] = owner_name
        module = _module_of(cls)
        file = getattr(sys.modules.get(module), "__file__", None) if type(module) is str else None
        if type(file) is str:
            self.told["file"] = file
        return True

    def _variable(self, function, child):
        code = function.__code__
        word = next((w for w, value in variables_of(function) if value is child), None)
        if word is None:
            return False
        self._now("closure", word, word, lambda: (code,))
        self.told["path"] += " -> %s.%s" % (code.co_name, word)
        self.told.update(function=code.co_name, file=code.co_filename)
        return True

    def _cache(self, wrapper, child):
        wrapped = wrapper.__wrapped__
        if type(wrapped) is not types.FunctionType or type(child) is not dict:
            return wrapped is child
        code = wrapped.__code__
        self._now("lru_cache", code.co_name, code.co_name, lambda: ())
        self.told.update(function=code.co_name, file=code.co_filename, line=code.co_firstlineno)
        return True

    def _now(self, of, name, word, find):
        for stale in ("function", "module", "owner", "line"):
            self.told.pop(stale, None)
        self.told.update(of=of, name=name)
        self.word, self.find, self.is_element = word, find, False

    def find_line(self):
        """The line that makes it grow, if there is one alone."""
        found = lines_that_grow(self.find(), self.word)
        if len(found) == 1:
            code, self.told["line"] = found[0]
            self.told.update(function=code.co_name, file=code.co_filename)


def variables_of(function):
    """(name, cell or value) of what a function has of its own: its closure and its defaults."""
    code = function.__code__
    found = list(zip(code.co_freevars, function.__closure__ or ()))  # noqa: B905
    defaults = function.__defaults__ or ()
    first = code.co_argcount - len(defaults)
    found += zip(code.co_varnames[first : code.co_argcount], defaults)  # noqa: B905
    return found + list((function.__kwdefaults__ or {}).items())


def attributes_of(o):
    """The dictionary of an object, past whatever its class says of `__dict__`."""
    for cls in _mro_of(type(o)):
        member = _dict_of_type(cls).get("__dict__")
        if type(member) is types.GetSetDescriptorType:
            return member.__get__(o)
    return None


def _key_of(variables, value):
    return next((k for k, v in list(variables.items()) if v is value and type(k) is str), None)


def _slot_of(o, value):
    for cls in _mro_of(type(o)):
        for word, member in list(_dict_of_type(cls).items()):
            if type(member) is types.MemberDescriptorType:
                try:
                    if member.__get__(o) is value:
                        return word
                except AttributeError:
                    continue  # not set
    return None


def _codes_of_module(variables, roots):
    if variables is None:
        return ()
    functions = [v for v in list(variables.values()) if type(v) is types.FunctionType]
    codes = [f.__code__ for f in functions if f.__globals__ is variables]
    running = roots.module_codes.get(id(variables))
    return codes if running is None else [*codes, running]


def _codes_of_class(cls):
    members = [v for c in _mro_of(cls) for v in list(_dict_of_type(c).values())]
    codes = [v.__code__ for v in members if type(v) is types.FunctionType]
    return [code for code in codes if not is_library(code.co_filename)]


def lines_that_grow(codes, word):
    """(code, line) of each line that names `word` and adds something to a container."""
    dis = sys.modules.get("dis")  # whoever has torch has it; not imported for this alone
    if dis is None:
        return []
    found = []
    for code in codes:
        named, growing, line = set(), set(), None
        starts = dict(dis.findlinestarts(code))
        for instruction in dis.get_instructions(code):
            line = starts.get(instruction.offset, line)
            is_load = instruction.opname.startswith("LOAD_") and instruction.opname != "LOAD_CONST"
            if instruction.argval == word and is_load:
                named.add(line)
            elif instruction.argval in _GROWS or instruction.opname == "STORE_SUBSCR":
                growing.add(line)
        found += [(code, line) for line in sorted(named & growing) if line is not None]
    return found
