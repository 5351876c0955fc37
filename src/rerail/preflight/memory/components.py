"""Where the memory of a training goes: the predicted peak, split into parts that add up. Pure.

In: a dry run and its prediction. Out: components, each with its bytes and how it was come by. What
tensors and files take is counted; what a step adds beyond that is activations and buffers; what is
left over is the allocator's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rerail.errors import RerailError
from rerail.preflight.memory.array_file import read_array_file
from rerail.preflight.memory.prediction import Prediction, kept_by_later_workers, workers_of
from rerail.preflight.memory.rehearsal import Rehearsal, Report
from rerail.records import LoadedFile, LoaderSettings
from rerail.wording import bytes_in_words, counted


@dataclass(frozen=True)
class Component:
    name: str
    size_bytes: int
    note: str = ""


def loader_settings(rehearsal: Rehearsal) -> LoaderSettings | None:
    """The DataLoader with the most workers of the training processes."""
    pids = {report.pid for report in rehearsal.reports}
    loaders = [loader for box in rehearsal.boxes if box.pid in pids for loader in box.loaders]
    return max(loaders, key=lambda loader: loader.workers, default=None)


def batch_size(rehearsal: Rehearsal) -> int | None:
    """As the DataLoader was told, else the first side of the first tensor of a batch."""
    found = loader_settings(rehearsal)
    if found is not None and found.batch_size:
        return found.batch_size
    for box in rehearsal.boxes:
        if box.optimizer_steps and box.batch_shapes:
            first = box.batch_shapes.strip("[{").split(",")[0].split("x")[0].split(":")[-1].strip()
            if first.isdigit():
                return int(first)
    return None


def split(rehearsal: Rehearsal, prediction: Prediction) -> list[Component]:
    found: list[Component] = []
    training = [report for report in rehearsal.reports if report.marks]
    if not training:
        return [Component("the whole process tree", prediction.peak_bytes, "no step was seen")]
    found.append(_libraries(rehearsal, training))
    found += _data(rehearsal, prediction)
    for name in ("parameters", "gradients", "optimizer_state"):
        size = sum(report.sizes.get(name, 0) for report in training)
        found.append(Component(name.replace("_", " "), size, "counted tensor by tensor"))
    found.append(_set_up(training, found))
    found.append(_activations(rehearsal, training))
    found += _workers(rehearsal)
    found.append(_others(rehearsal))
    later = kept_by_later_workers(rehearsal) + _kept_already(rehearsal, training)
    note = "from the second epoch on; persistent_workers=True saves it"
    found.append(Component("pages that forked workers keep", later, note))
    rest = prediction.peak_bytes - sum(component.size_bytes for component in found)
    if rest < 0:  # the data was freed or shared: what a step adds is less by that much
        found = _reduced(found, -rest)
        rest = prediction.peak_bytes - sum(component.size_bytes for component in found)
    found.append(Component("allocator and the rest", rest, "what nothing else accounts for"))
    return [component for component in found if component.size_bytes > 0]


def _reduced(components: Iterable[Component], excess: int) -> list[Component]:
    found = []
    for component in components:
        if component.name in ("activations and buffers", "data, loaded") and excess > 0:
            taken = min(excess, component.size_bytes)
            excess -= taken
            component = Component(component.name, component.size_bytes - taken, component.note)
        found.append(component)
    return found


def _libraries(rehearsal: Rehearsal, training: list[Report]) -> Component:
    """Private memory after the imports, and the pages of library files at rest."""
    private = sum(_first(report, "torch imported").get("RssAnon", 0) for report in training)
    files = max(
        (
            process.file_bytes
            - sum(m.rss_bytes for m in rehearsal.still.mappings.get(process.pid, ()))
            for process in rehearsal.still.processes
        ),
        default=0,
    )
    return Component("interpreter and libraries", private + max(0, files))


def _set_up(training: list[Report], before: Iterable[Component]) -> Component:
    """What came between the imports and the first step, beyond parameters and loaded files."""
    built = sum(
        max(
            0,
            _last(report, "optimizer made").get("RssAnon", 0)
            - _first(report, "torch imported").get("RssAnon", 0),
        )
        for report in training
    )
    known = sum(c.size_bytes for c in before if c.name in ("parameters", "data, loaded"))
    return Component(
        "set up before the first step", max(0, built - known), "later imports, data made in memory"
    )


def _kept_already(rehearsal: Rehearsal, training: list[Report]) -> int:
    """Of the private pages of the tree: what workers hold beyond their own and no parent has."""
    workers = workers_of(rehearsal)
    own = own_of_workers(rehearsal)
    if len(workers) < 2 and not _has_first_workers(rehearsal):
        return 0  # what a single worker keeps cannot be told from its own
    pids = {report.pid for report in training} | {worker.pid for worker in workers}
    tree = sum(p.anon_bytes for p in rehearsal.still.processes if p.pid in pids)
    parents = sum(int(report.marks[-1].get("RssAnon", 0)) for report in training)
    return max(0, tree - parents - own)


def _has_first_workers(rehearsal: Rehearsal) -> bool:
    return any(report.first_workers_bytes is not None for report in rehearsal.reports)


def own_of_workers(rehearsal: Rehearsal) -> int:
    """What loader workers have made themselves: those of the first epoch show it alone."""
    if _has_first_workers(rehearsal):
        return sum(report.first_workers_bytes or 0 for report in rehearsal.reports)
    return sum(worker.own_bytes for worker in workers_of(rehearsal))


def _others(rehearsal: Rehearsal) -> Component:
    """Launchers, and whatever else belongs to the tree."""
    known = {report.pid for report in rehearsal.reports}
    known |= {process.pid for process in workers_of(rehearsal)}
    others = [process for process in rehearsal.still.processes if process.pid not in known]
    note = f"{len(others)}: a launcher, or helpers" if others else ""
    return Component("other processes", sum(process.own_bytes for process in others), note)


def _first(report: Report, name: str) -> dict[str, int]:
    return next((mark for mark in report.marks if mark["mark"] == name), {})


def _last(report: Report, name: str) -> dict[str, int]:
    return next((mark for mark in reversed(report.marks) if mark["mark"] == name), {})


def _data(rehearsal: Rehearsal, prediction: Prediction) -> list[Component]:
    found = []
    if prediction.mapped_bytes:
        paths = {m.path for each in rehearsal.still.mappings.values() for m in each}
        note = f"{_names(paths)}; the kernel can take these pages back"
        found.append(Component("data, mapped", prediction.mapped_bytes, note))
    files: dict[str, LoadedFile] = {}
    for box in rehearsal.boxes:
        files.update({file.path: file for file in box.files if not file.is_mapped})
    sizes = {path: memory_of(file) for path, file in files.items()}
    if sizes:
        disk = sum(file.size_bytes for file in files.values())
        note = f"{_names(sizes)}; {bytes_in_words(disk)} on disk"
        found.append(Component("data, loaded", sum(sizes.values()), note))
    return found


def memory_of(file: LoadedFile) -> int:
    """Bytes in memory: an .npz may hold many times its size on disk."""
    if file.loader == "numpy.load":
        try:
            return read_array_file(Path(file.path)).memory_bytes
        except RerailError:
            pass
    return file.size_bytes


def _names(paths: Iterable[str]) -> str:
    names = sorted(Path(path).name for path in paths)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _activations(rehearsal: Rehearsal, training: list[Report]) -> Component:
    total = 0
    for report in training:
        before = _last(report, "optimizer made") or _first(report, "torch imported")
        counted_bytes = report.sizes.get("gradients", 0) + report.sizes.get("optimizer_state", 0)
        last = report.marks[-1]
        libraries = max(0, last.get("RssFile", 0) - before.get("RssFile", 0))
        steps_peak = max(
            (
                m.get("VmHWM", 0)
                for m in report.marks
                if m["mark"] in ("backward done", "step done")
            ),
            default=0,
        )
        total += max(0, steps_peak - before.get("VmRSS", 0) - counted_bytes - libraries)
    batch = batch_size(rehearsal)
    note = f"{bytes_in_words(total / batch)} for each of {batch} samples" if batch else ""
    return Component("activations and buffers", total, note)


def batches_under_way(rehearsal: Rehearsal) -> int:
    """Bytes in /dev/shm, mapped or waiting."""
    mapped = sum(process.shared_bytes for process in rehearsal.still.processes)
    return mapped + rehearsal.still.unmapped_bytes


def _workers(rehearsal: Rehearsal) -> list[Component]:
    workers = workers_of(rehearsal)
    if not workers:
        return []
    found = []
    settings = loader_settings(rehearsal)
    flying = batches_under_way(rehearsal)
    note = ""
    if settings is not None and settings.workers and settings.prefetch:
        note = (
            f"{counted(settings.workers, 'worker')} × {settings.prefetch} batches"
            f" × {settings.batch_size} samples"
        )
    found.append(Component("batches under way in /dev/shm", flying, note))
    own = own_of_workers(rehearsal)
    note = f"{counted(len(workers), 'process')}, what they do not share with their parent"
    found.append(Component("loader workers", own, note.replace("processs", "processes")))
    return found
