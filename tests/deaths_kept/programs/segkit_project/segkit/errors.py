class SegkitError(Exception):
    """Base of what segkit raises."""


class UnknownComponent(SegkitError):
    def __init__(self, kind, name, known):
        super().__init__(f"no {kind} called '{name}' is registered (known: {', '.join(known)})")


class QualityFloorError(SegkitError):
    def __init__(self, metric, value, floor):
        self.metric, self.value, self.floor = metric, value, floor

    def __str__(self):
        return f"{self.metric} is {self.value:.3f}, below the floor of {self.floor}"
