#!/usr/bin/env python3
"""Run programs of ONNX Runtime's users, unmodified, with ONNX Runtime's library and with Tessera's.

    python tests/compat/clients/run.py [CLIENT...] [--write docs/compat.md] [--list]

Each client comes from its registry into build/compat; the library or the import is redirected, nothing is rebuilt. The
table says how many cases pass with each; the last line is "N passed, N failed", where a client passes that does at least
as well with Tessera. A client whose tools are missing is named with what to install, and counts as failed."""
import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FOLDER, MODELS = ROOT / "build" / "compat", ROOT / "build" / "models"
OURS = ROOT / "build" / "release" / "lib" / "libonnxruntime.so.1"
STAGE = ROOT / "build" / "python_stage"
SECONDS = 1200
PYTHON_PACKAGES = ("numpy", "onnx==1.23.2", "onnxruntime==1.31.1", "rapidocr-onnxruntime==1.4.4", "onnxruntime-extensions==0.15.2",
                   "skl2onnx==1.20.0", "scikit-learn", "pillow")  # fmt: skip

sys.path[:0] = [str(HERE), str(ROOT / "tools")]


class Missing(Exception):
    """A tool that is not installed."""


def need(tool, package):
    if not shutil.which(tool):
        raise Missing(f"needs {tool}: apt-get install {package}")


def call(command, folder, **environment):
    """The output of a command, standard error included; RuntimeError with the end of it if it fails."""
    done = subprocess.run(list(map(str, command)), cwd=folder, text=True, timeout=SECONDS, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=os.environ | {k: str(v) for k, v in environment.items()})  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {' '.join(done.stdout.split()[-40:])}")
    return done.stdout


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: int = 0
    failures: tuple = ()


def count_lines(text):
    """What a program of this folder printed."""
    last = re.findall(r"^(\d+) passed, (\d+) failed$", text, re.MULTILINE)
    if not last:
        raise RuntimeError(f"no count in the output: {' '.join(text.split()[-40:])}")
    return Count(int(last[-1][0]), int(last[-1][1]), tuple(re.findall(r"^FAIL (.*)$", text, re.MULTILINE)))


def cases():
    folder = FOLDER / "cases"
    if not (folder / "cases.txt").exists():
        import cases as made

        made.make(folder, MODELS)
    return folder


def real_library():
    """ONNX Runtime's own, out of its wheel, under the name that clients look for."""
    import onnxruntime

    found = sorted((pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.1.*"))[0]
    folder = FOLDER / "onnxruntime"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "libonnxruntime.so.1"
    if not link.exists():
        link.symlink_to(found)
    return link


# --- clients: prepare() once, then run() with each library


class Node:
    name, job = "Node: onnxruntime-node 1.30.0", "6 real models, 9 types, options, refusals"

    def prepare(self):
        need("npm", "nodejs npm")
        self.folder = FOLDER / "node"
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / "node_modules").exists():
            call(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "onnxruntime-node@1.30.0"], self.folder)
        shutil.copy(HERE / "node" / "program.js", self.folder)

    def run(self, library):
        # Its binding is linked with the library of its own version alone, which lies beside it.
        path = {"LD_LIBRARY_PATH": library.parent} if library == OURS else {}
        return count_lines(call(["node", "program.js", cases()], self.folder, **path))


class Java:
    name, job = "Java: onnxruntime 1.29.0", "6 real models, 9 types, sequences, maps, threads, refusals"
    artifact = "com.microsoft.onnxruntime:onnxruntime:1.29.0"

    def prepare(self):
        need("javac", "default-jdk-headless")
        need("mvn", "maven")
        self.folder, jar = FOLDER / "java", "onnxruntime-1.29.0.jar"
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / jar).exists():
            call(["mvn", "-q", "dependency:copy", f"-Dartifact={self.artifact}", "-DoutputDirectory=."], self.folder)
        call(["javac", "-cp", jar, "-d", ".", HERE / "java" / "Program.java"], self.folder)
        self.path = f"{jar}:."

    def run(self, library):
        option = f"-Donnxruntime.native.onnxruntime.path={library}"
        if library != OURS:  # its binding is linked with the library of its own version alone
            option = "-Dunused=1"
        return count_lines(call(["java", option, "-cp", self.path, "Program", cases()], self.folder))


class Rust:
    name, job = "Rust: ort 2.0.0-rc.15", "6 real models, 9 types, binding, model editor, refusals"

    def prepare(self):
        need("cargo", "cargo")
        self.folder = FOLDER / "rust"
        call(["cargo", "build", "--release", "--manifest-path", HERE / "rust" / "Cargo.toml"], HERE, CARGO_TARGET_DIR=self.folder)

    def run(self, library):
        return count_lines(call([self.folder / "release" / "program", cases()], FOLDER, ORT_DYLIB_PATH=library))


class Go:
    name, job = "Go: yalue/onnxruntime_go 1.27.0", "the module's own tests"
    module = "github.com/yalue/onnxruntime_go@v1.27.0"

    def prepare(self):
        need("go", "golang")
        need("gcc", "gcc")
        self.folder = FOLDER / "go"
        if self.folder.exists():
            return
        FOLDER.mkdir(parents=True, exist_ok=True)
        text = call(["go", "mod", "download", "-json", self.module], FOLDER, GOFLAGS="-mod=mod")
        shutil.copytree(re.search(r'"Dir": "(.*)"', text)[1], self.folder)
        for path in [self.folder, *self.folder.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)

    def run(self, library):
        done = subprocess.run(["go", "test", "-count=1", "-v", "."], cwd=self.folder, text=True, timeout=SECONDS,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=os.environ | {"ONNXRUNTIME_SHARED_LIBRARY_PATH": str(library)})  # fmt: skip
        found = re.findall(r"^--- (PASS|FAIL): (\w+)", done.stdout, re.MULTILINE)
        failures = tuple(name for word, name in found if word == "FAIL")
        return Count(len(found) - len(failures), len(failures), failures)


class Program:
    """A Python program, run as it is and through tessera.as_onnxruntime."""

    def __init__(self, file, name, job):
        self.file, self.name, self.job = file, f"Python: {name}", job

    def prepare(self):
        self.folder, self.python = FOLDER / "python", FOLDER / "venv" / "bin" / "python"
        if not (STAGE / "tessera").exists():
            raise Missing("needs the Python package: ./dev test --quick stages it")
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (FOLDER / "venv" / "ready").exists():
            call([sys.executable, "-m", "venv", FOLDER / "venv"], FOLDER)
            call([self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PYTHON_PACKAGES], FOLDER)
            (FOLDER / "venv" / "ready").touch()
        self.answers = self.folder / f"{self.file}.npz"
        self.answers.unlink(missing_ok=True)

    def run(self, library):
        redirect = ["-m", "tessera.as_onnxruntime"] if library == OURS else []
        path = {"PYTHONPATH": STAGE} if library == OURS else {}
        return count_lines(call([self.python, *redirect, f"{self.file}.py", MODELS, self.answers], HERE / "python", **path))


CLIENTS = {
    "node": Node(),
    "java": Java(),
    "rust": Rust(),
    "go": Go(),
    "ocr": Program("ocr", "rapidocr-onnxruntime 1.4.4", "reads a drawn page: text, boxes, scores"),
    "vad": Program("vad", "silero-vad 6.2.3", "voice activity, window by window"),
    "sklearn": Program("sklearn_models", "skl2onnx 1.20", "33 models of scikit-learn against scikit-learn"),
    "custom_ops": Program("custom_ops", "onnxruntime-extensions 0.15.2", "a library of custom operators"),
    "quantize": Program("quantize", "onnxruntime.quantization", "quantised here, then run"),
}


@dataclasses.dataclass
class Row:
    client: object
    theirs: Count | None = None
    ours: Count | None = None
    note: str = ""

    def passed(self):
        return self.ours is not None and self.ours.passed >= self.theirs.passed and bool(self.ours.passed)


def try_client(client):
    row = Row(client)
    try:
        client.prepare()
        row.theirs = client.run(real_library())
        row.ours = client.run(OURS)
    except (Missing, RuntimeError, subprocess.TimeoutExpired) as error:
        row.note = str(error)
        return row
    notes = [f"{who} fails: {f[:200]}" for who, count in (("ONNX Runtime", row.theirs), ("Tessera", row.ours)) for f in count.failures]
    row.note = "; ".join(notes)
    return row


def table(rows):
    cell = lambda count: f"{count.passed} of {count.passed + count.failed}" if count else "-"
    lines = ["| client | what it does | ONNX Runtime | Tessera |", "|---|---|---|---|"]
    return "\n".join(lines + [f"| {r.client.name} | {r.client.job} | {cell(r.theirs)} | {cell(r.ours)} |" for r in rows])


def write_page(path, text):
    """Puts the table between the marks of the page."""
    begin, end = "<!-- table: begin -->\n", "<!-- table: end -->"
    page = path.read_text()
    before, rest = page.split(begin)
    path.write_text(before + begin + text + "\n" + end + rest.split(end)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"some of {', '.join(CLIENTS)} (default: all)")
    parser.add_argument("--write", type=pathlib.Path, metavar="PAGE", help="put the table into this page")
    parser.add_argument("--list", action="store_true", help="list the clients and run none")
    options = parser.parse_args()
    if unknown := set(options.clients) - set(CLIENTS):
        parser.error(f"no client is called {', '.join(sorted(unknown))}; there are {', '.join(CLIENTS)}")
    if options.list:
        print("\n".join(f"{key:12} {c.name}: {c.job}" for key, c in CLIENTS.items()))
        return 0
    rows = []
    for key in options.clients or CLIENTS:
        print(f"{CLIENTS[key].name} ...", file=sys.stderr, flush=True)
        rows.append(try_client(CLIENTS[key]))
        if rows[-1].note:
            print(f"  {rows[-1].note[:1000]}", file=sys.stderr, flush=True)
    print(table(rows))
    if options.write:
        write_page(options.write, table(rows))
    passed = sum(r.passed() for r in rows)
    print(f"{passed} passed, {len(rows) - passed} failed")
    return 0 if passed == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
