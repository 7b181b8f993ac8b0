"""docs/story.ipynb: it runs, and what it says is so."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")
pytest.importorskip("gymnasium")

STORY = Path(__file__).parents[2] / "docs" / "story.ipynb"

#: What the words of the notebook claim, said of its variables.
FACTS = """
import numpy as np
assert abs(shares[1][values == 1][0] - 1 / 3) < 0.02, "a third of those who got 1 gambled"
assert shares[0][values == 5][0] == 1, "all who got 5 took the worst bet"
assert got_by_rvs[5.0] < -4 and max(got_by_rvs.values()) < 0.3, "no target gets return conditioning 1"
for bet in range(3):
    of_bet = [at for at, (which, _) in enumerate(rows) if which == bet]
    others = [at for at in range(len(rows)) if at not in of_bet]
    used = shown[of_bet].sum(axis=0) > 0.01
    assert shown[others][:, used].sum() < 0.02, "every bet has clusters of its own"
    assert np.abs(np.diff(shown[of_bet], axis=0)).max() < 0.1, "which the coin does not decide"
    assert abs(labels[bets == bet].mean() - (-5.0, -2.5, 1.0)[bet]) < 0.15, "labels are what bets are worth"
    assert np.abs(labels[bets == bet] - (-5.0, -2.5, 1.0)[bet]).max() < 1
assert abs(run.offline_target - 1) < 0.01 and abs(kept["offline_return"] - 1) < 0.05
assert all(abs(each["promise"] - each["achieved"]) < 3 * each["stderr"] + 0.1 for each in kept["sweep"]), "promises are kept"
by = {row["method"]: row for row in found.rows()}
assert by["esper"]["offline_return"] > 0.95 and by["cql"]["offline_return"] > 0.95 and by["rvs"]["best_return"] < 0.3
"""


def test_it_is_kept_with_what_it_shows() -> None:
    story = nbformat.read(STORY, as_version=4)
    nbformat.validate(story)
    cells = [cell for cell in story.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, 11))
    outputs = [output for cell in cells for output in cell.outputs]
    assert all(cell.outputs for cell in cells)
    assert all(output.output_type in ("display_data", "execute_result", "stream") for output in outputs)
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 8
    assert STORY.stat().st_size < 500_000


@pytest.mark.slow
def test_it_runs_and_what_it_says_is_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    story = nbformat.read(STORY, as_version=4)
    story.cells.append(nbformat.v4.new_code_cell(FACTS))
    client = nbclient.NotebookClient(
        story, timeout=None, startup_timeout=600, kernel_name="python3", resources={"metadata": {"path": str(STORY.parent)}}
    )
    client.execute()
