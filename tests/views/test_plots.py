"""Pictures: axes that fit their data, labels that cover nothing."""

import pytest

from fedhalt.views import plots


@pytest.mark.parametrize("scores", [
    [(0.98, 0.002, "a"), (0.984, None, "b"), (None, None, "")],
    [(0.1, 0.05, "a"), (0.9, 0.05, "b")], [(0.5, None, "a")],
])  # fmt: skip
def test_the_dots_of_a_comparison_fill_their_axis_and_no_label_covers_one(scores, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    kept = []
    monkeypatch.setattr(plots, "save", lambda plt, figure, path: kept.append((plt, figure)))
    plots.bars_and_dots(["x"] * len(scores), [0.5] * len(scores), scores, ("cost", "accuracy"), tmp_path / "it.png")
    ((plt, figure),) = kept
    axis = figure.axes[1]
    (low, high), means = axis.get_xlim(), [mean for mean, _, _ in scores if mean is not None]
    assert low < min(means) <= max(means) < high and 0 <= low and high <= 1.005
    assert high - low <= max(0.06, 1.5 * (max(means) - min(means) + 0.1))
    figure.canvas.draw()
    inside = axis.get_window_extent()
    assert all(text.get_window_extent().x0 >= inside.x1 for text in axis.texts)
    plt.close(figure)
