"""`graphlatent train` without settings."""

from __future__ import annotations

from commands import run


def test_the_summary_names_the_values_of_the_preset(tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target\na,b\nb,a\nb,c\nc,b\n")
    code, _, err = run("train", edges, "--out", tmp_path / "run", "--set", "device=cpu")
    assert code == 0, err
    assert "(coordinates computed from the edges will be used); 100 epochs" in err
