"""Facts about the build that programs ask for."""

from __future__ import annotations

from .build_and_package_info import __version__, cuda_version, package_name


def check_distro_info() -> None:
    """Every distribution will do."""


def check_training_module() -> tuple[bool, str, str, str]:
    """Whether this build can train, then as below."""
    return False, *get_package_name_and_version_info()


def get_package_name_and_version_info() -> tuple[str, str, str]:
    """The package's name, its version, and that of CUDA."""
    return package_name, __version__, cuda_version
