#!/usr/bin/env python3
"""Code size of builds, side by side: libraries, folders of src/, object files.

    python tools/size_report.py [--all] build/release build/minimal

Figures are bytes of code and constants ("text") and of initialised data, from the `size` program. Object files are
those of src/; a source compiled for several targets counts once, with its largest object.
"""
import argparse
import collections
import pathlib
import subprocess
import sys

LARGEST = 40


def sizes(paths):
    """{path: text + data}."""
    result = {}
    paths = [str(p) for p in paths]
    for start in range(0, len(paths), 200):
        out = subprocess.run(["size", *paths[start : start + 200]], capture_output=True, text=True, check=True).stdout
        for line in out.splitlines()[1:]:
            fields = line.split(None, 5)
            result[fields[5]] = int(fields[0]) + int(fields[1])
    return result


def libraries(build):
    files = [p for p in (build / "lib").glob("*.so*") if not p.is_symlink()]
    return {pathlib.Path(p).name: n for p, n in sizes(files).items()}


def objects(build):
    result = collections.Counter()
    for path, n in sizes(build.rglob("*.o")).items():
        _, marker, source = path.partition(".dir/src/")
        if marker:
            source = source.removesuffix(".o")
            result[source] = max(result[source], n)
    return result


def folders(object_sizes):
    result = collections.Counter()
    for source, n in object_sizes.items():
        result[source.split("/")[0] + "/"] += n
    return result


def print_table(title, names, columns, rows, total):
    print(f"{title:<48}" + "".join(f"{name:>14}" for name in names))
    for key in rows:
        cells = (f"{column[key]:,}" if column.get(key) else "-" for column in columns)
        print(f"{key:<48}" + "".join(f"{cell:>14}" for cell in cells))
    if total:
        print(f"{'total':<48}" + "".join(f"{sum(column.values()):>14,}" for column in columns))
    print()


def by_size(columns):
    return sorted(set().union(*columns), key=lambda key: (-max(column.get(key, 0) for column in columns), key))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help=f"every object file, not the {LARGEST} largest")
    parser.add_argument("build", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    builds = [b for b in options.build if b.is_dir()]
    if not builds:
        return f"none of {' '.join(map(str, options.build))} exists: run ./dev build first"
    names = [b.name for b in builds]

    libs = [libraries(b) for b in builds]
    print_table("library (bytes of code and data)", names, libs, by_size(libs), total=False)
    objs = [objects(b) for b in builds]
    by_folder = [folders(o) for o in objs]
    print_table("folder", names, by_folder, by_size(by_folder), total=True)
    rows = by_size(objs)
    shown = rows if options.all else rows[:LARGEST]
    title = "object file" if len(shown) == len(rows) else f"object file ({len(shown)} largest of {len(rows)})"
    print_table(title, names, objs, shown, total=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
