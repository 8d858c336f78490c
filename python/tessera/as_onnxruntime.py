"""Makes `import onnxruntime` mean Tessera.

    python -m tessera.as_onnxruntime program.py arguments...
    python -m tessera.as_onnxruntime -m module arguments...
    python -m tessera.as_onnxruntime -c code arguments...

or, in a program, before anything imports onnxruntime:

    import tessera.as_onnxruntime
    tessera.as_onnxruntime.install()

or for a whole environment, where packages want a distribution of that name: a wheel made by

    python -m tessera.as_onnxruntime --write-wheel FOLDER
    pip install --no-deps FOLDER/onnxruntime-*.whl

If the onnxruntime package is installed too, those of its modules that are Python alone (onnxruntime.quantization, tools,
transformers) are found there, and run with Tessera. Processes that the program starts are not affected by the first two.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import pathlib
import runpy
import sys
import types

import tessera

_NAME = "onnxruntime"


def installed_folders() -> list[str]:
    """Where the package called onnxruntime is; empty where it is not, or is the one that --write-wheel makes."""
    spec = importlib.machinery.PathFinder.find_spec(_NAME)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return [f for f in folders if os.path.isdir(os.path.join(f, "capi"))]


class _Loader(importlib.abc.Loader):
    """Gives a module of Tessera as the module of another name."""

    def __init__(self, module: types.ModuleType):
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec):
        return self._module

    def exec_module(self, module):
        module.__spec__ = self._spec  # importing sets it to that of the other name


class _Finder(importlib.metadata.DistributionFinder):
    """Finds what Tessera has under the names of onnxruntime, and answers for the distribution where there is none."""

    def find_spec(self, fullname, path=None, target=None):
        if not fullname.startswith(_NAME + "."):
            return None
        ours = "tessera" + fullname[len(_NAME) :]
        try:
            if importlib.util.find_spec(ours) is None:
                return None
        except ModuleNotFoundError:
            return None
        module = importlib.import_module(ours)
        spec = importlib.machinery.ModuleSpec(fullname, _Loader(module), origin=module.__file__)
        spec.submodule_search_locations = getattr(module, "__path__", None)
        return spec

    def find_distributions(self, context=importlib.metadata.DistributionFinder.Context()):
        if context.name == _NAME and not any(importlib.metadata.MetadataPathFinder.find_distributions(context)):
            yield _Distribution()


class _Distribution(importlib.metadata.Distribution):
    def read_text(self, filename):
        return _metadata() if filename == "METADATA" else None

    def locate_file(self, path):
        return pathlib.Path(path)


def _metadata() -> str:
    return (
        f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {tessera.get_version_string()}\n"
        "Summary: Tessera under the name that other packages ask for\nRequires-Dist: tessera\n"
    )


def _root() -> types.ModuleType:
    """The module called onnxruntime: the names of Tessera, and the folders of the real package for what is there only."""
    module = types.ModuleType(_NAME, tessera.__doc__)
    module.__dict__.update({name: getattr(tessera, name) for name in tessera.__all__})
    version = tessera.get_version_string()
    module.__dict__.update(__author__=tessera.__author__, __version__=version, version=version)
    module.__dict__.update(package_name=_NAME, cuda_version="")
    module.__file__ = tessera.__file__
    module.__path__ = installed_folders()
    module.__spec__ = importlib.machinery.ModuleSpec(_NAME, _Loader(module), origin=tessera.__file__, is_package=True)
    module.__spec__.submodule_search_locations = module.__path__
    return module


def install(replace: bool = False) -> None:
    """Afterwards `import onnxruntime` gives Tessera. Refused if another package was imported by that name, unless
    `replace` says that it is to be forgotten."""
    present = sys.modules.get(_NAME)
    if present is not None and getattr(present, "InferenceSession", None) is tessera.InferenceSession:
        return
    if present is not None and not replace:
        raise ImportError("onnxruntime is imported already; install() comes before that")
    for name in [n for n in sys.modules if n == _NAME or n.startswith(_NAME + ".")]:
        del sys.modules[name]
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    root = sys.modules[_NAME] = _root()
    for name in ("", "._pybind_state", ".onnxruntime_pybind11_state", ".onnxruntime_validation"):
        importlib.import_module(f"{_NAME}.capi{name}")
    root.__dict__.update(onnxruntime_validation=sys.modules[f"{_NAME}.capi.onnxruntime_validation"])


def write_wheel(folder: str | os.PathLike) -> str:
    """Writes a wheel called onnxruntime that makes its name mean Tessera wherever it is installed; the file's name."""
    import base64
    import hashlib
    import zipfile

    version = tessera.get_version_string()
    info = f"{_NAME}-{version}.dist-info"
    files = {
        f"{_NAME}/__init__.py": "from tessera.as_onnxruntime import install\n\ninstall(replace=True)\n",
        f"{info}/METADATA": _metadata(),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tessera\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text.encode())}\n"
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    path = pathlib.Path(folder) / f"{_NAME}-{version}-py3-none-any.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return str(path)


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if arguments else 2)
    if arguments[0] == "--write-wheel":
        print(write_wheel(arguments[1] if len(arguments) > 1 else "."))
        return
    how = arguments.pop(0) if arguments[0] in ("-m", "-c") else ""
    if not arguments:
        sys.exit(f"{how} wants an argument")
    install()
    sys.argv = ["-c", *arguments[1:]] if how == "-c" else arguments
    if how:
        sys.path.insert(0, "")
    if how == "-m":
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif how == "-c":
        exec(compile(arguments[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path.insert(0, str(pathlib.Path(arguments[0]).resolve().parent))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    # The module that programs import is another one than this, which runs as the program.
    importlib.import_module("tessera.as_onnxruntime").main()
