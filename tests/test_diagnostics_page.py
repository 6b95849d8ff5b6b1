"""The examples of docs/diagnostics.md run as they stand and print what the page says."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

from graphlatent import GraphLatentWarning

PAGE = (Path(__file__).parents[1] / "docs" / "diagnostics.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_examples(capsys):
    names: dict = {}
    printed: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GraphLatentWarning)
        for language, block in BLOCKS:
            if language == "python":
                exec(compile(block, "docs/diagnostics.md", "exec"), names)
                printed += capsys.readouterr().out.splitlines()
    text = "\n".join([*printed, *(str(warning.message) for warning in caught)])
    shown = [line for language, block in BLOCKS if not language for line in block.splitlines()]
    assert len(shown) > 6
    for line in shown:
        assert line.removesuffix(" ...") in text or line == "...", line
    probe = names["probe"]
    assert [score.epoch for score in probe.scores] == names["measured"]["epoch"]
    # The validation score falls with the recovery.
    assert probe.scores[0].val > probe.scores[-1].val + 0.05
