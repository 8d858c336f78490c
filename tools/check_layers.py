#!/usr/bin/env python3
"""Check the include law: every #include of our sources against layers.txt.

    python tools/check_layers.py [ROOT]        prints each violation as file:line and exits 1 if there is one

Includes of our own files are written from src/ or include/ ("base/status.h", "tessera/session.h"); names that are in
neither tree belong to other libraries and are not our subject.
"""
import pathlib
import re
import sys

PUBLIC = "include"
CLIENTS = ("tools", "python", "examples")  # folders beside src/; they may name their own files without the folder
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
ENTRY = re.compile(r"(\w+)(?:\(([^)]*)\))?")


def read_law(path):
    """{layer: {lower layer: None for all of it, or the files and subfolders allowed}}, and complaints about the law."""
    law, errors = {}, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        layer, colon, rest = (part.strip() for part in line.partition(":"))
        if not colon:
            errors.append(f"{path.name}:{number}: wanted 'layer : layers', got '{line}'")
            continue
        allowed = {}
        for entry in ENTRY.finditer(rest):
            if entry[1] not in law:
                errors.append(f"{path.name}:{number}: '{layer}' includes '{entry[1]}', which is not on a line above")
            allowed[entry[1]] = entry[2].split() if entry[2] is not None else None
        law[layer] = allowed
    return law, errors


def layer_of(name, root):
    """The layer and the path inside it of an included name; None if it is not ours."""
    first, _, rest = name.partition("/")
    if first == "tessera" and (root / "include" / name).exists():
        return PUBLIC, rest
    if rest and (root / "src" / first).is_dir():
        return first, rest
    return None


def refusal(layer, name, quote, root, law):
    """Why `layer` must not include `name`; None if it may."""
    target = layer_of(name, root)
    if target is None:
        if quote == '"' and "/" not in name and layer not in CLIENTS:
            return f'"{name}" is not written from src/: name its folder too'
        return None
    lower, inside = target
    if lower == layer:
        return None
    if lower not in law[layer]:
        return f'{layer} must not include {lower} ("{name}")'
    files = law[layer][lower]
    if files is not None and not any(inside == f or (f.endswith("/") and inside.startswith(f)) for f in files):
        return f'of {lower}, {layer} may include only {" ".join(files)} ("{name}")'
    return None


def sources(root):
    """(layer, file) of everything the law speaks of."""
    for folder in (PUBLIC, *CLIENTS):
        for path in sorted((root / folder).rglob("*")):
            yield folder, path
    for path in sorted((root / "src").rglob("*")):
        yield path.relative_to(root / "src").parts[0], path


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    law, errors = read_law(root / "layers.txt")
    count = 0
    for layer, path in sources(root):
        if path.suffix not in (".h", ".cc", ".inc"):
            continue
        count += 1
        where = path.relative_to(root)
        if layer not in law:
            errors.append(f"{where}: '{layer}' is not in layers.txt")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := INCLUDE.match(line):
                if why := refusal(layer, match[2], match[1], root, law):
                    errors.append(f"{where}:{number}: {why}")
    for error in errors:
        print(error)
    print(f"check_layers: {count} files, {len(errors)} violations")
    return 1 if errors or not count else 0


if __name__ == "__main__":
    sys.exit(main())
