#!/usr/bin/env python3
"""Write src/ops/signatures_data.inc: the ONNX operator signatures, from the installed onnx package.

    python tools/signatures.py             write the file
    python tools/signatures.py --check     exit 1 if the file in the tree is not what the package gives

Every operator version of the domains below is covered. The tables hold numbers and one text pool only, so the object
file needs no relocation; equal runs of rows are stored once. src/ops/signatures.h says what the fields mean.
"""
import argparse
import difflib
import pathlib
import re
import struct
import sys

import onnx
from onnx import AttributeProto, TensorProto, defs

ONNX_VERSION = "1.23.2"
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
TARGET = pathlib.Path(__file__).resolve().parent.parent / "src" / "ops" / "signatures_data.inc"

# In the order of TypeKind; the group is the element type.
TYPE_KINDS = (
    r"tensor\((\w+)\)",
    r"sparse_tensor\((\w+)\)",
    r"seq\(tensor\((\w+)\)\)",
    r"optional\(tensor\((\w+)\)\)",
    r"optional\(seq\(tensor\((\w+)\)\)\)",
    r"map\(int64, ?(\w+)\)",
    r"map\(string, ?(\w+)\)",
    r"seq\(map\(int64, ?(\w+)\)\)",
    r"seq\(map\(string, ?(\w+)\)\)",
)
FIXED_TYPE = 255
Option = defs.OpSchema.FormalParameterOption
OPTIONS = {Option.Single: "single", Option.Optional: "optional", Option.Variadic: "variadic"}


class TextPool:
    """Zero-terminated strings; one that ends another is not stored again."""

    def __init__(self, strings):
        self.pieces, self.places, end = [], {}, 0
        for s in sorted(set(strings), key=lambda s: (-len(s), s)):
            if not re.fullmatch(r"[\w.(), -]*", s, re.ASCII):
                raise SystemExit(f"text with characters not provided for: {s!r}")
            whole = next((p for p in self.pieces if p.endswith(s)), None)
            if whole is None:
                self.places[s] = end
                self.pieces.append(s)
                end += len(s) + 1
            else:
                self.places[s] = self.places[whole] + len(whole) - len(s)
        if end > 0xFFFF:
            raise SystemExit("the text pool no longer fits 16-bit places")

    def __getitem__(self, s):
        return self.places[s]


class RowPool:
    """Rows of one table; a run of rows that stands there already is shared."""

    def __init__(self):
        self.rows, self.places = [], {}

    def place(self, run):
        run = tuple(run)
        if run not in self.places:
            self.places[run] = len(self.rows) if run else 0
            self.rows.extend(run)
        return self.places[run]


def type_set(type_strings):
    masks = [0] * len(TYPE_KINDS)
    for s in type_strings:
        for kind, pattern in enumerate(TYPE_KINDS):
            if match := re.fullmatch(pattern, s):
                masks[kind] |= 1 << TensorProto.DataType.Value(match[1].upper())
                break
        else:
            raise SystemExit(f"type not provided for: {s!r}")
    return tuple(masks)


def default_text(attribute):
    """The strings in the default of an attribute."""
    value = attribute.default_value
    return [s.decode() for s in ([value.s] if value.type == AttributeProto.STRING else value.strings)]


class Tables:
    def __init__(self, schemas):
        self.text = TextPool(self.strings(schemas))
        self.type_sets, self.constraints = RowPool(), RowPool()
        self.arguments, self.attributes, self.lists = RowPool(), RowPool(), RowPool()
        self.signatures = [self.signature(s) for s in schemas]

    @staticmethod
    def strings(schemas):
        for s in schemas:
            yield from (s.domain, s.name)
            yield from (c.type_param_str for c in s.type_constraints)
            for a in (*s.inputs, *s.outputs):
                yield from (a.name, a.type_str)
            for a in s.attributes.values():
                yield a.name
                yield from default_text(a)

    def argument(self, argument, constraints):
        index = next((i for i, c in enumerate(constraints) if c.type_param_str == argument.type_str), None)
        types = [argument.type_str] if index is None else constraints[index].allowed_type_strs
        places = (self.text[argument.name], self.text[argument.type_str], self.type_sets.place([type_set(types)]))
        option = f"ArgumentOption::{OPTIONS[argument.option]}"
        fixed = FIXED_TYPE if index is None else index
        return (*places, fixed, option, int(argument.is_homogeneous), argument.min_arity)

    def attribute(self, attribute):
        default, count, value = attribute.default_value, 0, 0
        has_default = default.type != AttributeProto.UNDEFINED
        if default.type == AttributeProto.INT:
            value = default.i
        elif default.type == AttributeProto.FLOAT:
            value = struct.unpack("<i", struct.pack("<f", default.f))[0]
        elif default.type == AttributeProto.STRING:
            value = self.text[default_text(attribute)[0]]
        elif default.type == AttributeProto.INTS:
            count, value = len(default.ints), self.lists.place(default.ints)
        elif default.type == AttributeProto.STRINGS:
            count, value = len(default.strings), self.lists.place(self.text[s] for s in default_text(attribute))
        elif has_default:
            raise SystemExit(f"default of attribute {attribute.name} has a type not provided for")
        if not -(2**31) <= value < 2**31:
            raise SystemExit(f"default of attribute {attribute.name} does not fit 32 bits")
        kind = AttributeProto.AttributeType.Value(attribute.type.name)
        return (self.text[attribute.name], kind, int(attribute.required), int(has_default), count, value)

    def signature(self, schema):
        constraints = list(schema.type_constraints)
        attributes = sorted(schema.attributes.values(), key=lambda a: a.name)
        types = (type_set(c.allowed_type_strs) for c in constraints)
        return (
            self.text[schema.domain],
            self.text[schema.name],
            schema.since_version,
            self.arguments.place(self.argument(a, constraints) for a in schema.inputs),
            self.arguments.place(self.argument(a, constraints) for a in schema.outputs),
            self.attributes.place(self.attribute(a) for a in attributes),
            self.constraints.place(
                (self.text[c.type_param_str], self.type_sets.place([t])) for c, t in zip(constraints, types)
            ),
            len(schema.inputs),
            len(schema.outputs),
            len(attributes),
            len(constraints),
            int(schema.deprecated),
        )


def filled(pieces, separator):
    """Joins pieces into lines of at most 120 columns."""
    lines = [""]
    for piece in pieces:
        if len(lines[-1]) + len(separator) + len(piece) > 118:
            lines.append("")
        lines[-1] += (separator if lines[-1] else "") + piece
    return lines


def table(declaration, rows):
    """A constexpr array; each row initialises one element."""
    pieces = ["{" + ",".join(str(v) for v in row) + "}," for row in rows]
    return [f"constexpr {declaration}[] = {{", *("    " + line for line in filled(pieces, "")), "};"]


def generate():
    schemas = [s for s in defs.get_all_schemas_with_history() if s.domain in DOMAINS]
    schemas.sort(key=lambda s: (s.domain.encode(), s.name.encode(), s.since_version))
    tables = Tables(schemas)
    latest = {d: v[1] for d, v in defs.C.schema_version_map().items() if d in DOMAINS}
    text = [f'"{s}\\0"' for s in tables.text.pieces]
    masks = [["{" + ",".join(f"{m:#x}" if m else "0" for m in row) + "}"] for row in tables.type_sets.rows]
    lists = [str(v) + "," for v in tables.lists.rows]
    return "\n".join(
        [
            f"// Generated by tools/signatures.py from onnx {onnx.__version__}; do not edit.",
            f"// {len(schemas)} operator versions.",
            "// clang-format off",
            "constexpr char kText[] =",
            *("    " + line for line in filled(text, " ")),
            "    ;",
            *table("TypeSet kTypeSets", masks),
            *table("TypeConstraint kConstraints", tables.constraints.rows),
            *table("Argument kArguments", tables.arguments.rows),
            "constexpr int64_t kDefaultLists[] = {",
            *("    " + line for line in filled(lists, " ")),
            "};",
            *table("Attribute kAttributes", tables.attributes.rows),
            *table("Signature kSignatures", tables.signatures),
            *table("DomainVersion kLatestOpsets", ((tables.text[d], latest[d]) for d in DOMAINS)),
            "// clang-format on",
            "",
        ]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the file in the tree, write nothing")
    check = parser.parse_args().check
    if onnx.__version__ != ONNX_VERSION:
        return f"onnx {onnx.__version__} is installed, wanted {ONNX_VERSION}: pip install onnx=={ONNX_VERSION}"
    wanted = generate()
    if not check:
        TARGET.write_text(wanted)
        return 0
    have = TARGET.read_text() if TARGET.exists() else ""
    if have == wanted:
        return 0
    sys.stderr.writelines(difflib.unified_diff(have.splitlines(True), wanted.splitlines(True), "tree", "package", n=0))
    return f"{TARGET.name} is not what onnx {ONNX_VERSION} gives: run tools/signatures.py"


if __name__ == "__main__":
    sys.exit(main())
