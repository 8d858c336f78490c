"""Small models to try things with."""

import os
import pathlib


def get_example(name: str) -> str:
    """The path of an example: one in this folder, or in that of the onnxruntime package, where it is installed."""
    here = pathlib.Path(__file__).parent
    folders = [here]
    from ..as_onnxruntime import installed_folders

    folders += [pathlib.Path(folder) / "datasets" for folder in installed_folders()]
    for folder in folders:
        if os.path.isfile(folder / name):
            return str(folder / name)
    raise FileNotFoundError(f"Unable to find example '{name}'")
