import yaml


def merge(base, other):
    out = dict(base)
    for key, value in other.items():
        if isinstance(value, dict):
            out[key] = merge(base.get(key, {}), value)
        else:
            out[key] = value
    return out


def load(path, overrides=()):
    with open(path) as handle:
        config = merge({}, yaml.safe_load(handle))
    for item in overrides:
        key, value = item.split("=", 1)
        *parents, last = key.split(".")
        node = config
        for parent in parents:
            node = node[parent]
        node[last] = yaml.safe_load(value)
    return config
