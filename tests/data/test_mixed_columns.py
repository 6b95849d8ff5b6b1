"""Text columns that are mostly numbers: refused, or text with a warning."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from graphlatent import read_graphs
from graphlatent.data.column_fitting import fit_column
from graphlatent.data.features import encode_features, fit_features
from graphlatent.data.graph import GraphData
from graphlatent.data.mixed_columns import are_numerals
from graphlatent.data.readers.options import TableOptions
from graphlatent.errors import GraphLatentWarning, InputError

ROWS = 80


def table(values, *, path=None) -> GraphData:
    """Nodes n0 to n79 with one column 'c', as a DataFrame or as a CSV file."""
    ids = [f"n{i}" for i in range(ROWS)]
    nodes = pd.DataFrame({"id": ids, "c": list(values)})
    edges = pd.DataFrame({"source": ids, "target": ids[1:] + ids[:1]})
    if path is not None:
        nodes.to_csv(path / "nodes.csv", index=False)
        nodes = path / "nodes.csv"
    return read_graphs((edges, nodes), symmetrize=False)


def fit(graph: GraphData):
    return fit_features(graph, degree_cap=4)


def spoiled(values, **at) -> list[str]:
    """The values as text, with others at some rows."""
    texts = [str(value) for value in values]
    for row, value in at.items():
        texts[int(row[1:])] = value
    return texts


AMOUNTS = (np.arange(ROWS) * 7 % 100 / 10).tolist()
AGES = [18 + i * 13 % 60 for i in range(ROWS)]
RATINGS = [i % 5 for i in range(ROWS)]


@pytest.mark.parametrize("values", [AMOUNTS, AGES, RATINGS], ids=["amounts", "ages", "ratings"])
@pytest.mark.parametrize(
    "sign",
    ["?", "n.a.", "-", "1,5", "1 000", "1'000.5", "<5", ">= 0.5", "#DIV/0!", "5%", "$5", "3.50 €"],
)
def test_a_sign_for_missing_among_numbers_is_refused_with_its_row(values, sign, tmp_path):
    message = (
        "Column 'c' holds numbers in 79 of 80 rows, and text in the others:"
        f" {sign!r} in row 12 (from 0), node n12. Correct or fill"
    )
    for path in (None, tmp_path):
        with pytest.raises(InputError) as caught:
            fit(table(spoiled(values, r12=sign), path=path))
        assert str(caught.value).startswith(message)


COMMAS = [
    [f"{value:.2f}".replace(".", ",") for value in np.linspace(-3, 314.88, ROWS)],
    [f"{i}.314,{i:02d}" for i in range(1, ROWS + 1)],
    [f"{i},314" for i in range(1, ROWS + 1)],
    [f"{i},5" if i % 4 == 0 else str(i) for i in range(ROWS)],
    [f"{i},5" if i % 4 else str(i) for i in range(ROWS)],
]


@pytest.mark.parametrize("values", COMMAS, ids=["all", "points", "thousands", "few", "most"])
def test_numbers_with_a_decimal_comma_are_named_as_such(values, tmp_path):
    for path in (None, tmp_path):
        with pytest.raises(InputError) as caught:
            fit(table(values, path=path))
        message = str(caught.value)
        assert message.startswith("Column 'c' holds numbers with a decimal comma, or with commas")
        assert "Write them with a decimal point" in message
        nodes = table(values).columns["c"]
        options = TableOptions(text=["c"])
        assert fit_column("c", nodes, standardize=True, options=options).kind == "categorical"


@pytest.mark.parametrize(
    "values",
    [["1,5", "2,5", "3,0", "3,5"] * 20, [f"{i},{i},{i}" for i in range(20)] * 4],
    ids=["few", "lists"],
)
def test_few_values_with_a_comma_and_lists_are_text(values):
    assert fit(table(values)).columns[0].kind == "categorical"


@pytest.mark.parametrize("values", [AMOUNTS, AGES], ids=["amounts", "ages"])
@pytest.mark.parametrize("share", [1, 3, 39])
def test_words_among_amounts_are_refused(values, share):
    words = {f"r{i}": f"word {'ab'[i % 2]}" for i in range(share)}
    with pytest.raises(InputError, match=f"numbers in {80 - share} of 80 rows.*'word a' in row 0 "):
        fit(table(spoiled(values, **words)))


def test_long_lists_are_cut_in_the_message():
    words = {f"r{i}": "abcdefgh"[i] for i in range(8)}
    with pytest.raises(InputError, match=r"'b' in row 1 .*'c' in row 2 .*n2 and 5 more\. "):
        fit(table(spoiled(AMOUNTS, **words)))


@pytest.mark.parametrize(
    "codes",
    [
        [*"12345", "2b", "17a"] * 12,
        [str(1 + i) if i % 8 else f"{i}b" for i in range(ROWS)],
        [str(10000 + 37 * i) if i % 9 else f"K1A {i % 10}B1" for i in range(ROWS)],
        [str(10115 + i) if i % 9 else f"{10115 + i}-1234" for i in range(ROWS)],
        [*map(str, range(1, 23)), "X", "Y"] * 4,
        ["0", "1", "2", "3+"] * 20,
        ["1.0", "1.1", "2.0", "2.0-beta"] * 20,
        ["1", "2", "3", "unknown"] * 20,
    ],
    ids=["types", "houses", "postal", "zip", "chromosomes", "children", "versions", "ratings"],
)
def test_codes_are_text_with_a_warning(codes):
    graph = table((codes * 2)[:ROWS])
    with pytest.warns(GraphLatentWarning, match="Column 'c' is read as text, with one feature for"):
        spec = fit(graph)
    assert spec.columns[0].kind == "categorical"
    assert encode_features(spec, graph).x.shape == (ROWS, len(set((codes * 2)[:ROWS])))


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b", "1", "c"] * 20,
        ["1", "x", "2", "y"] + ["z"] * 76,
        [f"{i}b" for i in range(ROWS)],
        ["?"] * 79 + ["1"],
    ],
)
def test_text_with_few_numbers_is_text_without_a_warning(values):
    assert fit(table(values)).columns[0].kind == "categorical"


def test_numbers_that_were_given_as_text_are_text():
    assert fit(table([f"{i % 7:02d}" for i in range(ROWS)])).columns[0].width == 7


def test_pandas_categories_are_text_whatever_they_hold():
    values = pd.Series(spoiled(RATINGS, r12="?"), dtype="category")
    nodes = pd.DataFrame({"id": range(ROWS), "c": values})
    edges = pd.DataFrame({"source": [0, 1], "target": [1, 0]})
    assert fit(read_graphs((edges, nodes))).columns[0].categories == ("0", "1", "2", "3", "4", "?")


def test_text_in_a_column_that_was_numbers_is_named_with_its_row():
    spec = fit(table(AMOUNTS))
    with pytest.raises(InputError, match=r"held numbers .* such as '\?' in row 12 \(from 0\)"):
        encode_features(spec, table(spoiled(AMOUNTS, r12="?")))


def test_numerals():
    text = np.array(["1", "-2.5", "1e5", " 3 ", "inf", "?", "", "1,5", "2b", "1 000", "nan"])
    assert are_numerals(text).tolist() == [True] * 5 + [False] * 6
