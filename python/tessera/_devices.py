"""Devices, memory and providers: the names that programs know; what there is, is the CPU."""

from __future__ import annotations

import enum
from typing import Any

from ._errors import InvalidArgument, NotImplemented, error


# The names of onnxruntime's providers. All are accepted; models run on the CPU.
KNOWN_PROVIDERS = frozenset(
    name + "ExecutionProvider"
    for name in (
        "ACL Azure CANN CPU CUDA CoreML Dml Dnnl Js MIGraphX Nnapi NvTensorRTRTX OpenVINO QNN Rknpu ROCM Tensorrt "
        "VSINPU VitisAI WebGpu WebNN Xnnpack"
    ).split()
)


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


class OrtDeviceEpIncompatibilityReason(enum.IntFlag):
    NONE = 0
    DRIVER_INCOMPATIBLE = 1
    DEVICE_INCOMPATIBLE = 2
    MISSING_DEPENDENCY = 4
    UNKNOWN = 0x80000000


class ArenaExtendStrategy(enum.IntEnum):
    kNextPowerOfTwo = 0
    kSameAsRequested = 1


def require_cpu(device: Any) -> None:
    """Refuses every device but the CPU, given by its name or as an OrtDevice."""
    if device.device_type() != 0 if isinstance(device, OrtDevice) else str(device).lower() != "cpu":
        raise RuntimeError(f"device {device!r} is not there, wanted 'cpu'")


def not_there(what: str, instead: str) -> Exception:
    """The exception for what cannot be on a CPU."""
    return error(NotImplemented, f"{what}; {instead}")


# Kinds of devices by name: number, and who makes them where that is certain.
_KINDS = {
    "cpu": (0, OrtDeviceVendorId.NONE),
    "cuda": (1, OrtDeviceVendorId.NVIDIA),
    "dml": (1, OrtDeviceVendorId.MICROSOFT),
    "webgpu": (1, OrtDeviceVendorId.NONE),
    "gpu": (1, OrtDeviceVendorId.NONE),
    "fpga": (2, OrtDeviceVendorId.NONE),
    "cann": (3, OrtDeviceVendorId.HUAWEI),
    "npu": (3, OrtDeviceVendorId.NONE),
}


def kind_of_device(name: str) -> tuple[int, OrtDeviceVendorId]:
    """The number of a kind of device and its vendor."""
    if str(name).lower() not in _KINDS:
        raise ValueError(f"Unsupported device type: {name}")
    return _KINDS[str(name).lower()]


class OrtDevice:
    """A description of where memory is. Any device can be described; there is memory on the CPU alone."""

    def __init__(self, device_type: Any = 0, mem_type: int = 0, device_id: int = 0, vendor_id: int = 0):
        if isinstance(device_type, OrtDevice):
            self.__dict__.update(vars(device_type))
        else:
            self._type, self._memory, self._id, self._vendor = int(device_type), mem_type, device_id, vendor_id

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        number, vendor = kind_of_device(ort_device_name)
        return OrtDevice(number, 0, device_id, vendor if vendor_id < 0 else vendor_id)

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
        return self._type

    def device_mem_type(self) -> int:
        return self._memory

    def mem_type(self) -> int:
        return self._memory

    def device_vendor_id(self) -> int:
        return self._vendor

    def vendor_id(self) -> int:
        return self._vendor

    def __repr__(self) -> str:
        name = ("cpu", "gpu", "fpga", "npu")[self._type] if self._type in range(4) else self._type
        return f"OrtDevice({name}, {self._id})"


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


def get_hardware_device_ep_incompatibility_details(ep_name: str, device: OrtHardwareDevice) -> dict[str, Any]:
    """Why a provider cannot use a device: nothing, for the CPU. Other providers are not there."""
    if ep_name != "CPUExecutionProvider":
        raise error(InvalidArgument, f"provider {ep_name!r} is not there, wanted 'CPUExecutionProvider'")
    return {"reasons_bitmask": int(OrtDeviceEpIncompatibilityReason.NONE), "notes": None, "error_code": 0}


def get_model_compatibility_for_ep_devices(devices: Any, compatibility_info: str) -> OrtCompiledModelCompatibility:
    """Whether devices can run a compiled model; the CPU compiles none, so the question does not apply."""
    if not isinstance(compatibility_info, str):
        raise TypeError(f"compatibility_info is {type(compatibility_info).__name__}, wanted str")
    if not devices:
        raise RuntimeError("no devices were given, wanted some of get_ep_devices()")
    return OrtCompiledModelCompatibility.EP_NOT_APPLICABLE


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
