"""The quick start of docs/python.md runs as it is written."""

import os
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_quick_start(capsys):
    page = ROOT / "docs" / "python.md"
    if not page.exists():
        pytest.skip("the tests are not in their tree")
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    assert len(blocks) >= 7
    before, names = os.getcwd(), {}
    os.chdir(ROOT)
    try:
        for block in blocks:
            exec(compile(block, str(page), "exec"), names)
    finally:
        os.chdir(before)
    assert "it comes from input 'image', which has NaN" in capsys.readouterr().out
