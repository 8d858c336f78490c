"""Facts about the build."""

from .. import _native

package_name = "onnxruntime"
__version__ = _native.version()
cuda_version = ""
