"""NVIDIA GPUs through NVML: what each holds, does and how hot it is.

In: nothing but libnvidia-ml, loaded by ctypes if the machine has it. Out: plain values per GPU.
Promises: no driver, no library or a GPU that answers with an error gives less, never an
exception. NVML can block for seconds on a sick GPU, so its callers ask from a thread of its own.
Structures and numbers are those of nvml.h, whose versions 1 calls are stable since NVML 4.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

_LIBRARIES = ("libnvidia-ml.so.1", "libnvidia-ml.so")
_TEMPERATURE_GPU = 0


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Utilisation(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Nvml:
    """An open NVML session."""

    def __init__(self, library: Any) -> None:
        self._library = library
        count = ctypes.c_uint()
        if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            count.value = 0
        self._devices: list[tuple[int, ctypes.c_void_p]] = []
        for index in range(count.value):
            handle = ctypes.c_void_p()
            if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0:
                self._devices.append((index, handle))

    def read_vitals(self) -> dict[str, float]:
        """Values by the names of vitals_columns.py."""
        values: dict[str, float] = {}
        for index, device in self._devices:
            memory, used = _Memory(), _Utilisation()
            celsius = ctypes.c_uint()
            if self._library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == 0:
                values[f"gpu{index}_used_bytes"] = memory.used
                values[f"gpu{index}_total_bytes"] = memory.total
            if self._library.nvmlDeviceGetUtilizationRates(device, ctypes.byref(used)) == 0:
                values[f"gpu{index}_utilisation"] = used.gpu / 100
            if (
                self._library.nvmlDeviceGetTemperature(
                    device, _TEMPERATURE_GPU, ctypes.byref(celsius)
                )
                == 0
            ):
                values[f"gpu{index}_temperature"] = celsius.value
        return values

    def describe(self) -> dict[str, Any]:
        """Driver and devices, for the surroundings."""
        devices = []
        for index, device in self._devices:
            memory = _Memory()
            self._library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory))
            major, minor = ctypes.c_int(), ctypes.c_int()
            capability = None
            if (
                self._library.nvmlDeviceGetCudaComputeCapability(
                    device, ctypes.byref(major), ctypes.byref(minor)
                )
                == 0
            ):
                capability = f"{major.value}.{minor.value}"
            devices.append(
                {
                    "index": index,
                    "name": self._text(self._library.nvmlDeviceGetName, device),
                    "uuid": self._text(self._library.nvmlDeviceGetUUID, device),
                    "total_bytes": memory.total or None,
                    "compute_capability": capability,
                }
            )
        cuda = ctypes.c_int()
        version = None
        if self._library.nvmlSystemGetCudaDriverVersion(ctypes.byref(cuda)) == 0:
            version = f"{cuda.value // 1000}.{cuda.value % 1000 // 10}"
        return {
            "driver_version": self._text(self._library.nvmlSystemGetDriverVersion),
            "cuda_driver_version": version,
            "devices": devices,
        }

    def _text(self, function: Any, *handle: ctypes.c_void_p) -> str | None:
        buffer = ctypes.create_string_buffer(96)
        if function(*handle, buffer, ctypes.c_uint(len(buffer))) != 0:
            return None
        return buffer.value.decode(errors="replace")


def open_nvml() -> Nvml | None:
    """A session, or None where there is no NVIDIA driver."""
    if sys.platform != "linux":
        return None
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
            if library.nvmlInit_v2() == 0:
                return Nvml(library)
        except (OSError, AttributeError):  # not there, or older than the calls used here
            continue
    return None
