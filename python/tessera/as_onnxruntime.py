"""Makes `import onnxruntime` mean Tessera.

    python -m tessera.as_onnxruntime program.py arguments...
    python -m tessera.as_onnxruntime -m module arguments...

or, in a program, before anything imports onnxruntime:

    import tessera.as_onnxruntime
    tessera.as_onnxruntime.install()

If the onnxruntime package is installed too, those of its modules that are Python alone (onnxruntime.quantization and
the like) are found there, and run with Tessera. Processes that the program starts are not affected.
"""
import importlib.machinery
import importlib.metadata
import pathlib
import runpy
import sys
import types

import tessera

# What the native modules of onnxruntime offer is the same set of names.
_NATIVE = ("onnxruntime_pybind11_state", "_pybind_state", "onnxruntime_inference_collection")


def _module(name, names, path=None):
    module = types.ModuleType(name, tessera.__doc__)
    module.__dict__.update(names)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=path is not None)
    module.__file__ = tessera.__file__
    if path is not None:
        module.__path__ = path
        module.__spec__.submodule_search_locations = path
    return module


def _installed_folders():
    spec = importlib.machinery.PathFinder.find_spec("onnxruntime")
    return list(spec.submodule_search_locations or ()) if spec else []


class _Metadata(importlib.metadata.DistributionFinder):
    """Lets importlib.metadata.version("onnxruntime") answer where that package is not installed."""

    def find_spec(self, *_):
        return None

    def find_distributions(self, context=importlib.metadata.DistributionFinder.Context()):
        if context.name == "onnxruntime":
            yield _Distribution()


class _Distribution(importlib.metadata.Distribution):
    def read_text(self, filename):
        if filename == "METADATA":
            return f"Metadata-Version: 2.1\nName: onnxruntime\nVersion: {tessera.get_version_string()}\n"
        return None

    def locate_file(self, path):
        return path


def install():
    """Afterwards `import onnxruntime` gives Tessera. Refused if the real package was imported before."""
    present = sys.modules.get("onnxruntime")
    if present is not None:
        if getattr(present, "InferenceSession", None) is tessera.InferenceSession:
            return
        raise ImportError("onnxruntime is imported already; install() comes before that")
    folders = _installed_folders()
    names = {name: getattr(tessera, name) for name in tessera.__all__}
    names["__version__"] = tessera.get_version_string()
    root = _module("onnxruntime", names, folders)
    capi = _module("onnxruntime.capi", {}, [folder + "/capi" for folder in folders])
    root.capi = capi
    sys.modules["onnxruntime"] = root
    sys.modules["onnxruntime.capi"] = capi
    for name in _NATIVE:
        module = _module(f"onnxruntime.capi.{name}", names)
        setattr(capi, name, module)
        sys.modules[module.__name__] = module
    if not folders:
        sys.meta_path.append(_Metadata())


def main():
    arguments = sys.argv[1:]
    as_module = arguments[:1] == ["-m"]
    if as_module:
        del arguments[0]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if arguments else 2)
    install()
    sys.argv = arguments
    if as_module:
        sys.path.insert(0, "")
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(pathlib.Path(arguments[0]).resolve().parent))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
