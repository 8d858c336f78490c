#!/usr/bin/env python3
"""Programs compiled with ONNX Runtime's headers run with our library, and programs compiled with ours run with theirs.

usage: headers.py TESSERA [--download] [--c DIR] [--cxx DIR]

TESSERA is the path of the tessera command; the library is taken from ../lib of it. The C header comes with a Go module
that carries a copy: --download fetches it into build/headers. The C++ wrapper is in no registry; --cxx, or the variable
ORT_CXX_HEADERS, names a folder that has onnxruntime_cxx_api.h, such as the one of Debian's libonnxruntime-dev. What is
not there is skipped, and the last line says what was compared.
"""
import argparse
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCES = ROOT / "tests/compat/headers"
GO_MODULE = "github.com/yalue/onnxruntime_go@v1.27.0"
DOWNLOADED = ROOT / "build/headers"


def run(command: list, **more) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"headers.py: {' '.join(map(str, command))}\nended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def download() -> None:
    """Fetches the Go module and keeps its C headers."""
    text = run(["go", "mod", "download", "-json", GO_MODULE], cwd=tempfile.gettempdir())
    folder = pathlib.Path(re.search(r'"Dir": "([^"]+)"', text).group(1))
    DOWNLOADED.mkdir(parents=True, exist_ok=True)
    for header in folder.glob("onnxruntime*_c_api.h"):
        (DOWNLOADED / header.name).write_bytes(header.read_bytes())
    print(f"headers of {GO_MODULE} are in {DOWNLOADED.relative_to(ROOT)}")


def their_library(folder: pathlib.Path):
    """The library of the onnxruntime package under the name that programs ask for, or None."""
    try:
        import onnxruntime
    except ImportError:
        return None
    found = sorted(pathlib.Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.1.*"))
    if not found:
        return None
    (folder / "libonnxruntime.so.1").symlink_to(found[-1])
    return folder


def make_models(folder: pathlib.Path) -> None:
    from onnx import TensorProto, helper, save
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3])

    def write(name, nodes, opsets):
        graph = helper.make_graph(nodes, "g", [value("x")], [value("y")])
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="headers", model_version=7)
        save(model, folder / name)

    write("plain.onnx", [helper.make_node("Relu", ["x"], ["y"])], [helper.make_opsetid("", 17)])
    custom = [helper.make_node("Twice", ["x"], ["a"], domain="client.test"),
              helper.make_node("Scale", ["a"], ["b"], domain="client.test", factor=1.5),
              helper.make_node("Negate", ["b"], ["y"], domain="client.test")]
    write("custom.onnx", custom, [helper.make_opsetid("", 17), helper.make_opsetid("client.test", 1)])


def check_layout(headers: pathlib.Path, folder: pathlib.Path) -> int:
    """Every slot that the header has is where our tables have it. Compiled only."""
    text = "".join(h.read_text() for h in headers.glob("onnxruntime*_c_api.h"))
    names = set(re.findall(r"ORT_API2_STATUS\((\w+)|ORT_API_T\([^,]+, (\w+)", text))
    known = {n for pair in names for n in pair if n} | {"Release" + n for n in re.findall(r"ORT_CLASS_RELEASE\((\w+)", text)}
    slots = re.findall(r'slot<&(OrtApi|OrtModelEditorApi|OrtCompileApi)::\w+, "(\w+)">\((\d+)\)',
                       (ROOT / "tests/cc/c_abi_slots.inc").read_text())
    lines = [f'_Static_assert(offsetof({table}, {name}) == {index} * sizeof(void*), "{name}");'
             for table, name, index in slots if name in known]
    source = folder / "layout.c"
    source.write_text("#include <stddef.h>\n#include <onnxruntime_c_api.h>\n" + "\n".join(lines) + "\n")
    run(["cc", "-std=c11", "-fsyntax-only", f"-I{headers}", source])
    return len(lines)


def compare(title: str, programs: dict, libraries: dict, argument: pathlib.Path) -> int:
    """Runs every program with every library; all must print the same."""
    outputs = {}
    for (program, path), (library, folder) in itertools.product(programs.items(), libraries.items()):
        outputs[f"{program} headers, {library} library"] = run(
            [path, argument], env=dict(os.environ, LD_LIBRARY_PATH=str(folder), ORT_DISABLE_TELEMETRY="1"))
    first = next(iter(outputs.values()))
    for name, text in outputs.items():
        if text != first:
            sys.exit(f"headers.py: {title} with {name} printed\n{text}\nothers printed\n{first}")
        print(f"{title}: {name}: {len(text.splitlines())} lines, the same")
    return len(outputs)


def check_network(program: pathlib.Path, ours: pathlib.Path, model: pathlib.Path, log: pathlib.Path) -> None:
    """Our library makes no system call of the network."""
    if not shutil.which("strace"):
        print("no strace: system calls are not watched")
        return
    run(["strace", "-f", "-e", "trace=%network", "-o", log, program, model],
        env=dict(os.environ, LD_LIBRARY_PATH=str(ours)))
    calls = [line for line in log.read_text().splitlines() if "(" in line]
    if calls:
        sys.exit("headers.py: our library used the network:\n" + "\n".join(calls))
    print("strace: no call of the network")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera", type=pathlib.Path)
    parser.add_argument("--download", action="store_true")
    parser.add_argument("--c", type=pathlib.Path, default=DOWNLOADED)
    parser.add_argument("--cxx", type=pathlib.Path, default=os.environ.get("ORT_CXX_HEADERS"))
    options = parser.parse_args()
    if options.download:
        download()
    ours = options.tessera.resolve().parent.parent / "lib"
    if not (ours / "libonnxruntime.so.1").exists():
        sys.exit(f"headers.py: no libonnxruntime.so.1 in {ours}; build the target onnxruntime first")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_models(folder)
        libraries = {"our": ours}
        if theirs := their_library(folder):
            libraries["their"] = theirs
        link = [f"-L{ours}", "-lonnxruntime", "-Wl,--allow-shlib-undefined"]
        programs, compared, slots = {"our": folder / "c_ours"}, 0, 0
        run(["cc", "-std=c11", "-Wall", f"-I{ROOT}/include", SOURCES / "client.c", "-o", programs["our"], *link])
        if (options.c / "onnxruntime_c_api.h").exists():
            slots = check_layout(options.c, folder)
            programs["their"] = folder / "c_theirs"
            run(["cc", "-std=c11", f"-I{options.c}", SOURCES / "client.c", "-o", programs["their"], *link])
        else:
            print("no C header of ONNX Runtime: run this with --download to compare with it")
        compared += compare("C program", programs, libraries, folder / "plain.onnx")
        check_network(programs["our"], ours, folder / "plain.onnx", folder / "strace.txt")
        if options.cxx and (pathlib.Path(options.cxx) / "onnxruntime_cxx_api.h").exists():
            wrapper = folder / "wrapper"
            wrapper.mkdir()
            for h in pathlib.Path(options.cxx).glob("onnxruntime_*"):
                if not h.name.endswith("_c_api.h") or "experimental" in h.name:
                    (wrapper / h.name).symlink_to(h)
            programs = {"our": folder / "cxx_ours", "their": folder / "cxx_theirs"}
            flags = ["-std=c++17", "-O1", SOURCES / "client.cc"]
            run(["c++", f"-I{ROOT}/include", f"-I{wrapper}", *flags, "-o", programs["our"], *link])
            run(["c++", f"-I{options.cxx}", *flags, "-o", programs["their"], *link])
            slots += check_layout(pathlib.Path(options.cxx), folder)
            compared += compare("C++ program", programs, libraries, folder)
        else:
            print("no C++ header of ONNX Runtime: name its folder with --cxx to compare with it")
    print(f"{compared} runs printed the same; {slots} slots are where ONNX Runtime's headers have them")


if __name__ == "__main__":
    main()
