"""`graphlatent demo`."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from commands import fails, run


@pytest.mark.slow
def test_it_ends_with_embeddings_scores_and_pictures(tmp_path):
    code, out, err = run("demo", "--out", tmp_path / "demo", "--json")
    assert code == 0 and "damaging" not in err, err
    scores = json.loads(out)
    for level in ("node", "graph"):
        table = {name: row["mean"] for name, row in scores[level].items()}
        assert set(table) == {
            "raw features",
            "propagated features",
            "random-initialised encoder",
            "LaGraph",
        }
        # Quality gate on data that is always at hand
        assert table["LaGraph"] > table["raw features"] + 0.1
        assert table["LaGraph"] > table["random-initialised encoder"]
        for name in ("map.png", "loss.png"):
            assert (tmp_path / "demo" / level / name).read_bytes().startswith(b"\x89PNG")
        assert (
            len(pd.read_parquet(tmp_path / "demo" / level / "embeddings.parquet"))
            == {"node": 1500, "graph": 300}[level]
        )
    distance = scores["distance_to_latent_features"]
    # The latent features are predicted far better than they are observed
    assert distance["predicted"] < distance["observed"] / 4
    assert "exists already" in fails("demo", "--out", tmp_path / "demo")
