#!/usr/bin/env python3
"""Keeps what is derived from the C ABI's headers in step with them.

Without arguments: writes src/capi/slots.inc, a stand-in for every slot of every table the library offers.
With --check: changes nothing, and fails if slots.inc is stale, if the order of a table differs from the frozen order in
tests/cc/c_abi_slots.inc, or if a header does not compile without a warning as C99 and as C++17.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ["include/tessera/c_api.h", "include/tessera/c_api_ep.h", "include/tessera/c_api_training.h"]
TABLES = ["OrtApi", "OrtTrainingApi", "OrtModelEditorApi", "OrtCompileApi", "OrtInteropApi", "OrtModelPackageApi",
          "OrtEpApi"]
SLOTS_INC = ROOT / "src/capi/slots.inc"
FROZEN = ROOT / "tests/cc/c_abi_slots.inc"
SLOT = re.compile(r"ORT_API2_STATUS\((\w+)|ORT_API_T\([^,]+, (\w+)|ORT_CLASS_RELEASE\((\w+)\)|\(ORT_API_CALL\* (\w+)\)\(")


def slots_of(text: str, table: str) -> list[str]:
    """The names of a table's slots, in the order of the header."""
    body = re.search(rf"^struct {table} {{\n(.*?)^}};", text, re.S | re.M)
    if not body:
        sys.exit(f"c_api_check: no struct {table} in {', '.join(HEADERS)}")
    code = re.sub(r"//.*", "", body.group(1))
    names = []
    for statement in code.split(";"):
        if not statement.strip():
            continue
        found = SLOT.search(statement)
        if not found:
            sys.exit(f"c_api_check: {table}: not a slot: {' '.join(statement.split())}")
        status, function, release, plain = found.groups()
        names.append(f"Release{release}" if release else status or function or plain)
    return names


def render(tables: dict[str, list[str]]) -> str:
    lines = ["// Written by tools/c_api_check.py from the C ABI's headers; not to be edited.", "",
             "namespace tessera::capi {"]
    for table, names in tables.items():
        lines += ["", "template <>", f'inline constexpr const char* kTableName<{table}> = "{table}";',
                  "template <>", f"inline constexpr {table} not_implemented_table<{table}> = {{"]
        lines += [f'    .{name} = not_implemented<&{table}::{name}, "{name}">,' for name in names]
        lines += ["};"]
    return "\n".join(lines + ["", "}  // namespace tessera::capi", ""])


def frozen_order() -> dict[str, list[str]]:
    order: dict[str, list[str]] = {}
    for table, name, index in re.findall(r'slot<&(\w+)::\w+, "(\w+)">\((\d+)\)', FROZEN.read_text()):
        order.setdefault(table, []).append(name)
        if int(index) != len(order[table]) - 1:
            sys.exit(f"c_api_check: {FROZEN.name}: {table}::{name} has index {index}, wanted {len(order[table]) - 1}")
    return order


def compile_errors() -> list[str]:
    errors = []
    for compiler, language, standard in (("cc", "c", "c99"), ("c++", "c++", "c++17")):
        command = [compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror",
                   "-fsyntax-only", f"-I{ROOT / 'include'}", "-"]
        source = "#include <onnxruntime_c_api.h>\n#include <onnxruntime_training_c_api.h>\nint main(void) { return 0; }\n"
        run = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
        if run.returncode:
            errors.append(f"the headers do not compile as {standard}:\n{run.stderr}")
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check

    text = "\n".join((ROOT / header).read_text() for header in HEADERS)
    tables = {table: slots_of(text, table) for table in TABLES}
    rendered = render(tables)
    if not check:
        SLOTS_INC.write_text(rendered)
        return

    errors = compile_errors()
    if not SLOTS_INC.exists() or SLOTS_INC.read_text() != rendered:
        errors.append("src/capi/slots.inc is stale: run tools/c_api_check.py")
    frozen = frozen_order()
    for table, names in tables.items():
        if frozen.get(table) != names:
            errors.append(f"the slots of {table} are not those of tests/cc/c_abi_slots.inc, in number or order")
    if errors:
        sys.exit("\n".join(f"c_api_check: {error}" for error in errors))
    print("c_api_check: " + ", ".join(f"{table} {len(names)}" for table, names in tables.items()))


if __name__ == "__main__":
    main()
