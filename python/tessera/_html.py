"""How things look in a notebook."""

from __future__ import annotations

import html
from typing import Sequence

from ._types import type_text

_CELL = "padding:2px 10px;text-align:left"


def table_html(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> str:
    head = "".join(f'<th style="{_CELL}">{html.escape(c)}</th>' for c in columns)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{html.escape(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def session_html(session) -> str:
    """Inputs, outputs, memory and the account of a session."""
    if not session._handle.is_open():
        return f"<p>{html.escape(repr(session))}</p>"
    rows = [
        [what, a.name, type_text(a._type), ", ".join("?" if d is None else str(d) for d in a.shape)]
        for what, arguments in (("input", session.get_inputs()), ("output", session.get_outputs()))
        for a in arguments
    ]
    memory = [[name, f"{count:,}"] for name, count in session.memory().items()]
    return (
        table_html(["", "name", "type", "shape"], rows, repr(session))
        + table_html(["memory", "bytes"], memory)
        + f"<details><summary>explain()</summary><pre>{html.escape(session.explain())}</pre></details>"
    )
