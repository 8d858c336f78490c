#!/usr/bin/env python3
"""Write one test case for every (operator, version, type) of the ONNX specification.

    python tools/make_matrix.py OUT [--only OPERATOR]       writes OUT/matrix/<case>/ and OUT/manifest.json
    python tools/make_matrix.py OUT --page PAGE RESULTS     writes the page from the output of "tessera test --json"

The cases have the layout of tools/make_corpus.py, so that "tessera test --corpus OUT" runs them. The recipes in
tools/matrix say what the inputs are; the reference evaluator, ONNX Runtime or a formula says what must come out, and the
manifest records which. Fails if a cell has no case.
"""
import argparse
import collections
import json
import pathlib
import shutil
import sys
import warnings

warnings.filterwarnings("ignore")
from matrix import cells, oracles, page, values
from matrix import recipes_control, recipes_math, recipes_ml, recipes_nn, recipes_quant, recipes_tensor  # noqa: F401
from matrix.registry import RECIPES


def put(path, message):
    path.write_bytes(message.SerializeToString(deterministic=True))


def write_case(folder, cell, case, outputs):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    model = cells.make_model(cell.domain, cell.op, cell.version, case.inputs, case.attrs, case.outputs,
                             captured=case.captured, nodes=case.nodes)  # fmt: skip
    put(folder / "model.onnx", model)
    given = [(f"x{i}", v) for i, v in enumerate(case.inputs) if v is not None] + case.captured
    for k, (name, value) in enumerate(given):
        put(data / f"input_{k}.pb", values.value_proto(value, cells.text_of(value), name))
    texts = [(f"y{o}", text) for o, text in enumerate(case.outputs) if text]
    for k, ((name, text), value) in enumerate(zip(texts, outputs)):
        put(data / f"output_{k}.pb", values.value_proto(value, text, name))
    return [name for name, _ in given], [name for name, _ in texts]


def make(out, only):
    shutil.rmtree(out, ignore_errors=True)
    manifest, missing, disputes, counts = [], [], [], collections.Counter()
    chosen = [c for c in cells.all_cells() if not only or c.op == only]
    for cell in chosen:
        recipe = RECIPES.get((cell.domain, cell.op))
        try:
            if not recipe:
                raise oracles.NoOracle("no recipe")
            case = recipe(cell)
            oracle, outputs = oracles.answers(cell, case, disputes)
            inputs, results = write_case(out / "matrix" / cell.name, cell, case, outputs)
        except Exception as e:  # a cell without a case is counted and named, whatever its recipe met
            shutil.rmtree(out / "matrix" / cell.name, ignore_errors=True)
            missing.append(f"{cell.name}: {type(e).__name__}: {e}")
            continue
        rtol, atol = oracles.tolerance(case)
        counts[oracle] += 1
        manifest.append({
            "group": "matrix", "name": cell.name, "op": cell.op, "ops": [cell.op], "expanded": False,
            "opset": {cell.domain: cell.version}, "rtol": rtol, "atol": atol, "inputs": inputs, "outputs": results,
            "cell": [cell.domain, cell.op, cell.version, cell.constraint, cell.text],
            "combination": bool(cell.combination), "oracle": oracle,
        })  # fmt: skip
    (out / "manifest.json").write_text(json.dumps(manifest, indent=0))
    for line in disputes:
        print("disputed", line)
    combined = sum(bool(c.combination) for c in chosen)
    print(f"{len(chosen) - combined} cells and {combined} combinations, {len(manifest)} cases:", ", ".join(f"{n} {k}" for k, n in sorted(counts.items())))
    print(f"cells missing: {len(missing)}")
    for line in missing:
        print("missing", line[:300])
    return 1 if missing else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", metavar="OPERATOR")
    parser.add_argument("--page", nargs=2, type=pathlib.Path, metavar=("PAGE", "RESULTS"))
    args = parser.parse_args()
    if args.page:
        return page.write(args.page[0], args.out / "manifest.json", args.page[1])
    return make(args.out, args.only)


if __name__ == "__main__":
    sys.exit(main())
