from .errors import UnknownComponent


class Registry:
    def __init__(self, kind):
        self.kind, self.items = kind, {}

    def register(self, name):
        def wrap(target):
            self.items[name] = target
            return target

        return wrap

    def build(self, spec, **extra):
        spec = dict(spec)
        name = spec.pop("kind")
        if name not in self.items:
            raise UnknownComponent(self.kind, name, sorted(self.items))
        return self.items[name](**spec, **extra)


MODELS = Registry("model")
DATASETS = Registry("dataset")
CALLBACKS = Registry("callback")
OPTIMIZERS = Registry("optimizer")
