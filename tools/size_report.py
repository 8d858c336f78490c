#!/usr/bin/env python3
"""Sizes of the libraries of builds beside their budgets, and what they are made of.

    python tools/size_report.py [--all] build/release build/minimal

A library counts with its bytes on disk after stripping; tools/size_budgets.json has the budgets. "constructors" are
functions that run when the library is loaded, beside the one of the C runtime: there must be none. The tables of folders
and object files count what the linker kept, from the map that it writes for minimal libraries; where it saw the whole library at
once, functions that have no name outside of their file count to the file of the one before them. The exit status is 1 if a
library is over its budget or has a constructor, or if one with a budget was not built.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LARGEST = 40
BUDGETS = pathlib.Path(__file__).with_name("size_budgets.json")
NOT_IN_FILE = (".bss", ".tbss", ".debug", ".comment", ".symtab", ".strtab", ".shstrtab")
OF_THE_RUNTIME = 1  # frame_dummy of crtbeginS.o


def stripped_size(library):
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "stripped")
        subprocess.run(["strip", "-o", copy, library], check=True)
        return os.path.getsize(copy)


def constructors(library):
    out = subprocess.run(["readelf", "-SW", library], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\.init_array\s+INIT_ARRAY\s+\S+\s+\S+\s+([0-9a-f]+)", out)
    return (int(found[1], 16) // 8 if found else 0) - OF_THE_RUNTIME


def source_of(path):
    """The source of an object file, or what else it is."""
    inside = re.search(r"\.dir/(?:src|generated)/(.*)\.o$", path)
    return inside[1] if inside else "(other)"


def owners(build):
    """{symbol: source} of the objects of a build that were compiled for a linker that sees all."""
    result = {}
    paths = [str(p) for p in build.rglob("*.o") if ".dir/" in str(p)]
    for start in range(0, len(paths), 100):
        command = ["gcc-nm", "-A", "--defined-only", *paths[start : start + 100]]
        for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines():
            path, _, rest = line.partition(":")
            result.setdefault(rest.split()[-1], source_of(path))
    return result


PREFIX = re.compile(r"^\.(text(\.unlikely|\.startup|\.hot|\.exit)?|rodata|data\.rel\.ro(\.local)?|data)\.")
SUFFIX = re.compile(r"\.(lto_priv|constprop|isra|part|cold|localalias)\b.*$")


def parts_of(map_file):
    """{source: bytes} from a linker map."""
    result, symbols, before = collections.Counter(), None, "(other)"
    text = map_file.read_text()
    text = text[text.find("Linker script and memory map") :]
    line_of = re.compile(r"^ (\.\S+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S+)$", re.M)
    for section, at, size, path in line_of.findall(text):
        if not int(at, 16) or section.startswith(NOT_IN_FILE):
            continue
        source = source_of(path)
        if ".ltrans" in path:
            symbols = symbols if symbols is not None else owners(map_file.parent)
            symbol = SUFFIX.sub("", PREFIX.sub("", section))
            source = before = symbols.get(symbol, before)
        result[source] += int(size, 16)
    return result


def print_table(title, names, rows):
    print(f"{title:<46}" + "".join(f"{name:>16}" for name in names))
    for key, cells in rows:
        print(f"{key:<46}" + "".join(f"{cell:>16}" for cell in cells))
    print()


def number(n):
    return f"{n:,}" if n else "-"


def print_libraries(builds, budgets):
    """Prints them and returns what is wrong."""
    rows, wrong, missing = [], [], dict(budgets)
    for build in builds:
        for library in sorted(p for p in (build / "lib").glob("*.so*") if not p.is_symlink()):
            size, started = stripped_size(library), constructors(library)
            budget = missing.pop(library.name, None) if build.name == "minimal" else None
            verdict = "" if budget is None else "ok" if size <= budget else "OVER BUDGET"
            if budget is not None and size > budget:
                wrong.append(f"{library.name} has {size:,} bytes, {size - budget:,} over its budget")
            if budget is not None and started > 0:
                wrong.append(f"{library.name} has {started} constructors; a static object with an initialiser was added")
            left = f"{budget - size:,}" if budget else "-"
            rows.append((f"{build.name}/{library.name}", [f"{size:,}", number(budget), left, str(started), verdict]))
    print_table("library (bytes, stripped)", ["size", "budget", "left", "constructors", ""], rows)
    wrong += [f"{name} was not built: run ./dev size without --no-build" for name in missing]
    return wrong


def print_parts(builds, show_all):
    maps = sorted(m for b in builds for m in b.glob("*.map"))
    parts = [parts_of(m) for m in maps]
    if not parts:
        return
    names = [m.stem.removeprefix("tessera_") for m in maps]
    folders = [collections.Counter() for _ in parts]
    for folder, part in zip(folders, parts):
        for source, size in part.items():
            folder[source.split("/")[0] + ("/" if "/" in source else "")] += size
    for title, columns, most in (("folder", folders, None), ("object file", parts, None if show_all else LARGEST)):
        keys = sorted(set().union(*columns), key=lambda key: (-max(c[key] for c in columns), key))
        title = f"{title} ({most} largest of {len(keys)})" if most and most < len(keys) else title
        rows = [(key, [number(c[key]) for c in columns]) for key in keys[:most]]
        print_table(title, names, rows + [("total", [number(sum(c.values())) for c in columns])])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help=f"every object file, not the {LARGEST} largest")
    parser.add_argument("build", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    builds = [b for b in options.build if b.is_dir()]
    if not builds:
        return f"none of {' '.join(map(str, options.build))} exists: run ./dev build first"
    wrong = print_libraries(builds, json.loads(BUDGETS.read_text()))
    print_parts([b for b in builds if b.name == "minimal"], options.all)
    for line in wrong:
        print(f"size_report: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
