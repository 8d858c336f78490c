"""Devices, memory and providers: the names that programs know; what there is, is the CPU."""

from __future__ import annotations

import enum
from typing import Any

from ._errors import NotImplemented, error


class OrtDeviceVendorId(enum.IntEnum):
    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtAllocatorType(enum.IntEnum):
    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(enum.IntEnum):
    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtDeviceMemoryType(enum.IntEnum):
    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfoDeviceType(enum.IntEnum):
    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3


class OrtHardwareDeviceType(enum.IntEnum):
    CPU = 0
    GPU = 1
    NPU = 2


class OrtExecutionProviderDevicePolicy(enum.IntEnum):
    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


class OrtSparseFormat(enum.IntEnum):
    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


class OrtCompileApiFlags(enum.IntFlag):
    NONE = 0
    ERROR_IF_NO_NODES_COMPILED = 1
    ERROR_IF_OUTPUT_FILE_EXISTS = 2


class OrtCompiledModelCompatibility(enum.IntEnum):
    EP_NOT_APPLICABLE = 0
    EP_SUPPORTED_OPTIMAL = 1
    EP_SUPPORTED_PREFER_RECOMPILATION = 2
    EP_UNSUPPORTED = 3


class ArenaExtendStrategy(enum.IntEnum):
    kNextPowerOfTwo = 0
    kSameAsRequested = 1


def require_cpu(name: str) -> None:
    """Refuses every device but the CPU."""
    if str(name).lower() != "cpu":
        raise RuntimeError(f"device {name!r} is not there, wanted 'cpu'")


def not_there(what: str, instead: str) -> Exception:
    """The exception for what cannot be on a CPU."""
    return error(NotImplemented, f"{what}; {instead}")


class OrtDevice:
    """Where memory is; there is only the CPU."""

    def __init__(self, device_type: Any = 0, mem_type: int = 0, device_id: int = 0, vendor_id: int = 0):
        self._id = device_type.device_id() if isinstance(device_type, OrtDevice) else device_id

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        require_cpu(ort_device_name)
        return OrtDevice(device_id=device_id)

    def _get_c_device(self) -> OrtDevice:
        return self

    @staticmethod
    def cpu() -> int:
        return 0

    @staticmethod
    def cuda() -> int:
        return 1

    @staticmethod
    def gpu() -> int:
        return 1

    @staticmethod
    def dml() -> int:
        return 1

    @staticmethod
    def webgpu() -> int:
        return 1

    @staticmethod
    def fpga() -> int:
        return 2

    @staticmethod
    def npu() -> int:
        return 3

    @staticmethod
    def cann() -> int:
        return 3

    @staticmethod
    def default_memory() -> int:
        return 0

    def device_id(self) -> int:
        return self._id

    def device_type(self) -> int:
        return 0

    def device_mem_type(self) -> int:
        return 0

    def mem_type(self) -> int:
        return 0

    def device_vendor_id(self) -> int:
        return 0

    def vendor_id(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"OrtDevice(cpu, {self._id})"


class OrtMemoryInfo:
    """A description of memory."""

    def __init__(
        self,
        name: str,
        allocator_type: OrtAllocatorType,
        device_id: int = 0,
        mem_type: OrtMemType = OrtMemType.DEFAULT,
    ):
        self.name, self.allocator_type = name, allocator_type
        self.device_id, self.mem_type = device_id, mem_type
        self.device_mem_type, self.device_vendor_id = OrtDeviceMemoryType.DEFAULT, 0

    @staticmethod
    def create_v2(
        name: str,
        device_type: OrtMemoryInfoDeviceType,
        vendor_id: int,
        device_id: int,
        device_mem_type: OrtDeviceMemoryType,
        alignment: int,
        allocator_type: OrtAllocatorType,
    ) -> OrtMemoryInfo:
        made = OrtMemoryInfo(name, allocator_type, device_id)
        made.device_mem_type, made.device_vendor_id = device_mem_type, vendor_id
        return made


CPU_MEMORY = ("Cpu", OrtAllocatorType.ORT_DEVICE_ALLOCATOR)


class OrtArenaCfg:
    """How an arena grows. Accepted; memory is planned from the model instead."""

    _names = (
        "max_mem",
        "arena_extend_strategy",
        "initial_chunk_size_bytes",
        "max_dead_bytes_per_chunk",
        "initial_growth_chunk_size_bytes",
        "max_power_of_two_extend_bytes",
    )

    def __init__(self, *values: Any):
        given = values[0] if len(values) == 1 and isinstance(values[0], dict) else dict(zip(self._names, values))
        unknown = sorted(set(given) - set(self._names))
        if unknown:
            raise ValueError(f"Invalid OrtArenaCfg option: {unknown[0]}")
        for name in self._names:
            setattr(self, name, int(given.get(name, 0 if name == "max_mem" else -1)))


class OrtHardwareDevice:
    """A piece of hardware."""

    def __init__(self) -> None:
        self.type, self.vendor, self.vendor_id, self.device_id = OrtHardwareDeviceType.CPU, "", 0, 0
        self.metadata: dict[str, str] = {}


class OrtEpDevice:
    """A provider on a piece of hardware."""

    def __init__(self) -> None:
        self.ep_name, self.ep_vendor = "CPUExecutionProvider", "Tessera"
        self.ep_metadata: dict[str, str] = {}
        self.ep_options: dict[str, str] = {}
        self.device = OrtHardwareDevice()

    def memory_info(self, memory_type: OrtDeviceMemoryType) -> OrtMemoryInfo:
        return OrtMemoryInfo(*CPU_MEMORY)

    def create_sync_stream(self) -> OrtSyncStream:
        raise not_there("the CPU has no streams", "runs are complete when they return")


class OrtSyncStream:
    """A stream of work on a device; none can be made."""

    def __init__(self) -> None:
        raise not_there("the CPU has no streams", "runs are complete when they return")

    def get_handle(self) -> int:
        return 0


class OrtEpAssignedNode:
    """A node, and what runs it."""

    def __init__(self, name: str, domain: str, op_type: str):
        self.name, self.domain, self.op_type = name, domain, op_type


class OrtEpAssignedSubgraph:
    """The nodes that one provider runs."""

    def __init__(self, nodes: list[OrtEpAssignedNode]):
        self.ep_name = "CPUExecutionProvider"
        self._nodes = nodes

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        return list(self._nodes)


class OrtEpContextData:
    """Data of a provider that compiles; the CPU has none."""

    size = 0

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        return b""


class OrtEpContextDataBuffer:
    """Room for data of a provider that compiles."""

    def __init__(self, max_size: int = 0):
        self._data, self.max_size, self.is_allocated = bytearray(), max_size, False

    @property
    def size(self) -> int:
        return len(self._data)

    def allocate(self, size: int) -> None:
        self._data, self.is_allocated = bytearray(size), True

    def write(self, data: bytes, offset: int = 0) -> None:
        if offset + len(data) > len(self._data):
            raise ValueError(f"{len(data)} bytes at {offset} do not fit in {len(self._data)}")
        self._data[offset : offset + len(data)] = data


class OrtExternalInitializerInfo:
    """Where an initializer is in a file."""

    def __init__(self, filepath: str, file_offset: int, byte_size: int):
        self.filepath, self.file_offset, self.byte_size = filepath, file_offset, byte_size


def get_ep_devices() -> list[OrtEpDevice]:
    """What models can run on: the CPU."""
    return [OrtEpDevice()]


def get_hardware_devices() -> list[OrtHardwareDevice]:
    """The CPU."""
    return [OrtHardwareDevice()]


def register_execution_provider_library(registration_name: str, library_path: str) -> None:
    """Refused: providers cannot be added."""
    raise not_there("plug-in providers cannot be loaded", "models run on the CPU without one")


def unregister_execution_provider_library(registration_name: str) -> None:
    """Refused: there are none to remove."""
    raise not_there("plug-in providers cannot be loaded", "models run on the CPU without one")


def create_and_register_allocator(memory_info: OrtMemoryInfo, arena_cfg: OrtArenaCfg | None) -> None:
    """Accepted; memory is planned from the model instead."""


def create_and_register_allocator_v2(
    provider_type: str, memory_info: OrtMemoryInfo, options: dict[str, str], arena_cfg: OrtArenaCfg | None
) -> None:
    """Accepted; memory is planned from the model instead."""
