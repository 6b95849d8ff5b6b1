"""Messages of the library as the command line shows them."""

from __future__ import annotations

import pytest

from commands import fails
from graphlatent.cli.output import Output
from graphlatent.cli.wording import at_shell
from graphlatent.data.readers.text_content import HOW_TO_DECODE


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "there is no column 'g' (option 'graph'). Name it with the option 'graph'.",
            "there is no column 'g' (--graph-column). Name it with --graph-column.",
        ),
        ("(option 'max_memory')", "(--max-memory)"),
        (
            "The options 'source', 'id' and 'no_header' are for tables.",
            "--source, --id and --no-header are for tables.",
        ),
        (
            "have them filled (impute='mean', --impute mean on the command line), or leave the"
            " column out (drop, --drop).",
            "have them filled (--impute mean), or leave the column out (--drop).",
        ),
        (
            f"is not UTF-8 text (line 1). {HOW_TO_DECODE}",
            "is not UTF-8 text (line 1). Give the encoding it was written in, such as --encoding"
            " latin-1 or cp1252, or save it as UTF-8.",
        ),
        (
            "give the option 'delimiter' (--delimiter on the command line).",
            "give --delimiter.",
        ),
        (
            "allow for them (unknown='ignore', --unknown ignore).",
            "allow for them (--unknown ignore).",
        ),
        (
            "leave it out with invalid='skip' (on the command line --invalid skip)",
            "leave it out with --invalid skip",
        ),
        ("in both of the options 'drop' and 'hash'.", "in both of --drop and --hash."),
        ("The option 'merge' must be one of 'max'.", "--merge must be one of 'max'."),
        (
            "The 'nodes' parameter of probe has no effect without 'graph'. Set that, or leave"
            " 'nodes' out.",
            "--nodes has no effect without --graph. Set that, or leave --nodes out.",
        ),
        (
            "without them (edge_features=[], --edge-features '' on the command line).",
            "without them (--edge-features '').",
        ),
        (
            "The 'lr' parameter of NodeLaGraph must be a float. Got 'a' instead.",
            "The setting 'lr' must be a float. Got 'a' instead.",
        ),
        (
            "The 'max_memory' parameter of read_graphs must be a number",
            "--max-memory must be a number",
        ),
        ("The 'path' parameter of RunFolder must be a path.", "The path must be a path."),
        ("The '--seeds' parameter of bench run must be 5", "--seeds must be 5"),
        ("The 'table' parameter of bench must be 1", "TABLE must be 1"),
        (
            "The 'size' parameter of NodeLaGraph has no effect without preset='plus'. Set that.",
            "The setting 'size' has no effect without --set preset=plus. Set that.",
        ),
        (
            "Keep directions: symmetrize=False (on the command line --set symmetrize=false).",
            "Keep directions: --set symmetrize=false.",
        ),
        (
            "merge='sum' or 'max' (on the command line --merge sum)",
            "merge='sum' or 'max' (--merge sum)",
        ),
        (
            "the limit with max_memory, --max-memory on the command line.",
            "the limit with --max-memory.",
        ),
        ("Keep them: symmetrize=False.", "Keep them: --set symmetrize=false."),
        ("Keep them: --set symmetrize=false.", "Keep them: --set symmetrize=false."),
        ("Use device='cpu'.", "Use --device cpu."),
        (
            "allow replacing it (--overwrite, overwrite=True).",
            "allow replacing it with --overwrite.",
        ),
        # What is no setting, or a value that came in, stays.
        ("fit(graph, run=None)", "fit(graph, run=None)"),
        ("Got 'epochs=None'", "Got 'epochs=None'"),
        ("loss=nan, latent=0.5", "loss=nan, latent=0.5"),
    ],
)
def test_flags_instead_of_arguments(text, shown):
    assert at_shell(text) == shown


def test_a_column_that_is_not_there_is_named_with_its_flag(tables):
    nodes = ["--nodes", tables / "nodes.csv", "--features", "ages", "--out", tables / "r"]
    message = fails("train", tables / "edges.csv", *nodes)
    assert "there is no column 'ages' (--features)" in message
    assert message.endswith("Name the right one with --features.")


def test_a_note_is_said_once(capsys):
    output = Output(quiet=False, as_json=False)
    for text in ("one", "two", "one"):
        output.note(text)
    assert capsys.readouterr().err == "note: one\nnote: two\n"


def test_a_missing_input(tables):
    out = ["--out", tables / "r"]
    there = tables / "edges.csv"
    message = fails("train", tables / "edge.csv", *out)
    assert message == f"There is no file {tables / 'edge.csv'}. Did you mean {there}?"
    message = fails("train", "imdb-a", *out)
    assert message.endswith("data set named 'imdb-a'. Did you mean the data set 'IMDB-B'?")
    far = tables / "far" / "e.csv"
    assert fails("train", far, *out) == (
        f"There is no file {far}. There is no folder {tables / 'far'} either. Check the path."
    )
