"""What notebooks show."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

__all__ = ["framed", "table"]


def framed(page: str, height: int = 720) -> str:
    """A whole page within a notebook's: in a frame, so that neither's style touches the other."""
    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" style="width:100%;height:{height}px;border:1px solid #ddd" '
        'loading="lazy"></iframe>'
    )


def table(heading: str, rows: Iterable[Sequence[object]], columns: Sequence[str]) -> str:
    """A small table with a heading."""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<div><strong>{html.escape(heading)}</strong><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
