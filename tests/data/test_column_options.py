"""Missing values, dates, times, hashed text, columns and categories that come later."""

from __future__ import annotations

import dataclasses
import datetime
import json
import warnings

import numpy as np
import pandas as pd
import pytest

from feature_graphs import objects, with_columns
from graphlatent import NodeLaGraph, read_graphs
from graphlatent.data.column_spec import ColumnSpec
from graphlatent.data.describe_columns import column_facts, in_lines
from graphlatent.data.features import FeatureSpec, encode_features, fit_features
from graphlatent.data.readers.options import TableOptions
from graphlatent.errors import GraphLatentWarning, InputError
from graphlatent.ops.sparse import to_dense


def graph_with(options=None, **columns):
    return dataclasses.replace(with_columns(**columns), reading=TableOptions(**(options or {})))


def fit(graph):
    """The encoding, after a round trip through JSON, as a model stores it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphLatentWarning)
        spec = fit_features(graph, degree_cap=4)
    return FeatureSpec.from_dict(json.loads(json.dumps(spec.to_dict())))


def rows(spec, graph):
    return to_dense(encode_features(spec, graph).x).numpy().round(4).tolist()


NAN = float("nan")


def test_a_column_without_a_value_in_a_later_graph_is_said():
    spec = fit(graph_with({"impute": "mean"}, f=[1.0, 3.0, NAN], g=[1.0, 2.0, 3.0]))
    with pytest.warns(GraphLatentWarning, match=r"Column 'f' has no value in any row\. All are"):
        found = rows(spec, graph_with(f=[NAN, NAN, NAN], g=[1.0, 2.0, 3.0]))
    assert [row[0] for row in found] == [0, 0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows(spec, graph_with(f=[NAN, 1.0, NAN], g=[1.0, 2.0, 3.0]))


def test_missing_numbers_are_filled_with_what_was_learnt():
    options = {"impute": "mean"}
    spec = fit(graph_with(options, a=[1.0, NAN, 3.0, 8.0]))
    # The mean of 1, 3, 8; the deviation is that of the values that are there.
    deviation = np.std([1, 3, 8])
    assert (spec.columns[0].fill, spec.columns[0].mean) == (4, 4)
    assert spec.columns[0].scale == pytest.approx(deviation)
    # Later graphs are filled alike, whatever their own mean is, without being told again.
    assert rows(spec, with_columns(a=[NAN, 100.0])) == [[0], [pytest.approx(96 / deviation, 1e-4)]]
    median = fit(graph_with({"impute": "median"}, a=[1.0, NAN, 3.0, 8.0]))
    assert median.columns[0].fill == 3
    assert rows(median, with_columns(a=[NAN])) == rows(median, with_columns(a=[3.0]))


def test_a_column_without_gaps_is_filled_later_too():
    spec = fit(graph_with({"impute": "median"}, a=[1.0, 2.0, 9.0]))
    assert rows(spec, with_columns(a=[NAN])) == rows(spec, with_columns(a=[2.0]))
    assert spec.width == 1


def test_an_indicator_says_where_values_were_missing():
    columns = {"a": [0.0, NAN, 1.0], "t": objects("x", None, "y"), "b": objects(True, None, None)}
    spec = fit(graph_with({"impute": "indicator"}, **columns, full=[0, 1, 1]))
    assert spec.names == [
        *("a", "a is missing", "t=x", "t=y", "t is missing", "b", "b is missing", "full")
    ]
    assert rows(spec, with_columns(**columns, full=[0, 1, 1])) == [
        [0, 0, 1, 0, 0, 1, 0, 0],
        [0.5, 1, 0, 0, 1, 1, 1, 1],
        [1, 0, 0, 1, 0, 1, 1, 1],
    ]
    # Without gaps when it was fitted, it has no indicator, but is filled.
    assert rows(spec, with_columns(**columns, full=[NAN, 1, 1]))[0][-1] == pytest.approx(
        2 / 3, 1e-3
    )


def test_missing_text_sets_no_category():
    spec = fit(graph_with({"impute": "mean"}, t=objects("x", None, "y")))
    assert rows(spec, with_columns(t=objects(None, "y"))) == [[0, 0], [0, 1]]


def test_signs_for_missing_values_between_numbers():
    column = objects("1", "?", "3", "8", "n.a.")
    with pytest.raises(InputError, match="Signs for missing values can be filled"):
        fit(graph_with(c=column))
    spec = fit(graph_with({"impute": "mean"}, c=column))
    assert (spec.columns[0].kind, spec.columns[0].fill) == ("numeric", 4)
    assert rows(spec, with_columns(c=objects("-", "4"))) == [[0], [0]]
    with pytest.raises(InputError, match=r"held numbers .* text such as 'many' in row 1"):
        rows(spec, with_columns(c=objects("?", "many")))
    # Between words they are words: NA is Namibia.
    words = fit(graph_with({"impute": "mean"}, c=objects("DE", "NA", "FR")))
    assert words.columns[0].categories == ("DE", "FR", "NA")


def test_a_fitted_model_decides_how_values_are_filled():
    spec = fit(with_columns(a=[1.0, 2.0]))
    with pytest.raises(InputError, match=r"fitted with impute=None.* impute='mean' needs a new"):
        rows(spec, graph_with({"impute": "mean"}, a=[1.0]))
    spec = fit(graph_with({"impute": "mean"}, a=[1.0, 2.0]))
    assert rows(spec, graph_with({"impute": "mean"}, a=[1.5])) == [[0]]
    with pytest.raises(
        InputError, match=r"fitted on 'a' without hashing\. Leave the option 'hash'"
    ):
        rows(spec, graph_with({"hash": ["a"]}, a=[1.5]))


DAYS = [18262.0, 18263.5, 18264.25]
TEXT = ["2020-01-01 00:00", "2020-01-02 12:00", "2020-01-03 06:00"]
ZONE = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    "values",
    [
        np.array(TEXT, dtype="datetime64[s]"),
        objects(*TEXT),
        objects(*[t.replace("-", "/") for t in TEXT]),
        objects(*[t.replace(" ", "T") + ":00Z" for t in TEXT]),
        objects("2020-01-01 02:00+02:00", "2020-01-02 12:00Z", "2020-01-03T06:00+0000"),
        objects(*[datetime.datetime.fromisoformat(t) for t in TEXT]),
        objects(*[pd.Timestamp(t, tz="UTC") for t in TEXT]),
        objects(*[np.datetime64(t) for t in TEXT]),
        objects(datetime.datetime(2020, 1, 1, 2, tzinfo=ZONE), *map(pd.Timestamp, TEXT[1:])),
    ],
    ids=lambda values: str(values[0]),
)
def test_dates_of_any_type_are_days(values):
    graph = graph_with(c=values)
    with pytest.warns(
        GraphLatentWarning, match=r"^Dates are used as .* since 1970-01-01 .*: 'c'\."
    ):
        spec = fit_features(graph, degree_cap=4, standardize=False)
    assert spec.columns[0].kind == "date"
    assert rows(spec, graph) == [[day] for day in DAYS]
    later = with_columns(c=objects("2020-01-02"))
    assert rows(spec, later) == [[18263]]
    with pytest.raises(InputError, match=r"held dates .* and now holds numbers"):
        rows(spec, with_columns(c=[3.0]))
    with pytest.raises(InputError, match=r"held dates .* text such as 'soon' in row 1"):
        rows(spec, with_columns(c=objects("2020-01-02", "soon")))


@pytest.mark.parametrize(
    "values",
    [
        objects("06:00", "18:00:00"),
        objects(datetime.time(6), datetime.time(18)),
        np.array([6, 18], dtype="timedelta64[h]"),
        objects(datetime.timedelta(hours=6), pd.Timedelta(hours=18)),
    ],
)
def test_times_are_parts_of_a_day(values):
    spec = fit(graph_with(c=values))
    assert (spec.columns[0].kind, spec.columns[0].mean) == ("time", 0.5)
    assert rows(spec, with_columns(c=values)) == [[-1], [1]]
    with pytest.raises(InputError, match=r"held times .* now holds dates"):
        rows(spec, with_columns(c=objects("2020-01-01")))


@pytest.mark.parametrize(
    "text",
    [
        ("01/02/2024", "03/04/2024"),
        ("2024-02-30", "2024-02-01"),
        ("2024-01-01", "soon"),
        ("2024-01-01", "2024-01-01 12:00Z"),
        ("2024-01", "2024-02"),
        ("24:00", "12:00"),
    ],
)
def test_what_may_be_no_date_stays_text(text):
    assert fit(graph_with(c=objects(*text))).columns[0].kind == "categorical"


def test_missing_dates():
    values = np.array(["2020-01-01", "NaT", "2020-01-03"], dtype="datetime64[D]")
    with pytest.raises(InputError, match=r"Column 'c' has 1 missing value, the first in row 1"):
        fit(graph_with(c=values))
    for each in (values, objects("2020-01-01", None, "2020-01-03")):
        spec = fit(graph_with({"impute": "mean"}, c=each))
        assert rows(spec, with_columns(c=each)) == [[-1], [0], [1]]


def test_truth_values_as_text():
    spec = fit(graph_with(c=objects("true", "FALSE", "True")))
    assert (spec.columns[0].kind, spec.width) == ("boolean", 1)
    assert rows(spec, with_columns(c=[True, False])) == [[1], [0]]
    assert fit(graph_with(c=objects("yes", "no"))).columns[0].categories == ("no", "yes")


def test_hashed_text():
    text = [f"{color} car {i}" for i, color in enumerate(["Red", "blue"] * 100)]
    graph = graph_with({"hash": ["c"]}, c=objects(*text))
    with pytest.warns(GraphLatentWarning, match="words of text are hashed into 256 .*: 'c'"):
        fit_features(graph, degree_cap=4)
    spec = fit(graph)
    assert (spec.width, spec.names[3]) == (256, "c#3")
    found = rows(spec, with_columns(c=objects("red CAR!", "car, red", "car", "...", "ü")))
    assert found[0] == found[1] and found[0] != found[2]
    assert [sum(row) for row in found] == [2, 2, 1, 1, 1]
    # The same on every machine, and in later versions.
    assert [i for i, value in enumerate(found[0]) if value] == [13, 216]


@pytest.mark.parametrize("blank", ["", " ", "\t \u00a0"])
@pytest.mark.parametrize("others", [("a", "b", "a"), ("true", "false", "true"), ("1 a", "2", "x")])
def test_white_space_alone_is_missing(blank, others):
    """A cell that looks empty is no category, from any source, with whatever options."""
    values = [*others, blank]
    for column in (objects(*values), np.array(values), objects(*values[:3], None)):
        with pytest.raises(InputError, match=r"'c' has 1 missing value, the first in row 3 "):
            fit(with_columns(c=column))
    with pytest.raises(InputError, match="'c' has 1 missing value"):
        fit(graph_with({"hash": ["c"]}, c=objects(*values)))
    graph = graph_with({"impute": "indicator"}, c=objects(*values))
    with pytest.warns(GraphLatentWarning, match=r"Missing (text|numbers)"):
        spec = fit_features(graph, degree_cap=4)
    assert not any(name in ("c=", f"c={blank}") for name in spec.names)
    assert [row[-1] for row in rows(spec, graph)] == [0, 0, 0, 1]
    # Around other text it belongs to the category.
    assert fit(with_columns(c=[" a", "a"])).names == ["c= a", "c=a"]


def test_codes_that_are_to_be_text():
    spec = fit(graph_with({"text": ["zip"]}, zip=[1010, 8010, 1010], a=[1, 2, 4]))
    assert spec.names == ["zip=1010", "zip=8010", "a"]
    mixed = objects("1", "2", "?", *map(str, range(3, 20)))
    assert fit(graph_with({"text": ["c"]}, c=mixed)).columns[0].kind == "categorical"
    for option in ("text", "hash"):
        with pytest.raises(InputError, match=rf"no feature column 'zipp' \(option '{option}'\)"):
            fit(graph_with({option: ["zipp"]}, zip=[1, 2]))


def test_unknown_categories():
    spec = fit(with_columns(c=["a", "b"]))
    later = {"c": objects("a", "z", "y", "z")}
    message = r"Column 'c' holds values in 3 rows that it never held .*: 'y', 'z'\. There, none"
    with pytest.warns(GraphLatentWarning, match=message):
        assert rows(spec, graph_with({"unknown": "ignore"}, **later)) == [
            [1, 0],
            [0, 0],
            [0, 0],
            [0, 0],
        ]
    # What the model was fitted with holds where later graphs do not say otherwise.
    tolerant = fit(graph_with({"unknown": "ignore"}, c=["a", "b"]))
    with pytest.warns(GraphLatentWarning, match="never held"):
        rows(tolerant, with_columns(**later))
    with pytest.raises(InputError, match="'z' in row 1"):
        rows(tolerant, graph_with({"unknown": "error"}, **later))


def test_columns_that_the_model_does_not_know():
    spec, later = fit(with_columns(a=[1, 2])), {"a": [1, 2], "b": [0, 1], "c": [2, 2]}
    message = r"^Columns that are not used, since the model was not fitted on them: 'b', 'c'\.$"
    for options in ({}, {"unknown": "ignore"}):
        with pytest.warns(GraphLatentWarning, match=message):
            assert rows(spec, graph_with(options, **later)) == rows(spec, with_columns(a=[1, 2]))
    with pytest.raises(InputError, match=r"was not fitted on: 'b', 'c'\. Leave them out"):
        rows(spec, graph_with({"unknown": "error"}, **later))


def test_wide_tables_of_counts_are_taken_as_they_are():
    counts = np.random.default_rng(0).poisson(0.2, (30, 65)).astype(float)
    table = {f"w{i}": counts[:, i] for i in range(65)}
    assert rows(fit(with_columns(**table)), with_columns(**table)) == counts.tolist()
    with pytest.warns(GraphLatentWarning, match="values of the 65 columns are 0, so that numbers"):
        fit_features(with_columns(**table), degree_cap=4)
    # Fewer columns, text, or values that are mostly not 0 are measurements.
    few = dict(list(table.items())[:64])
    full = {name: values + 1 for name, values in table.items()}
    for other in (few, full, {**table, "t": ["a"] * 30}):
        assert any(column.scale != 1 for column in fit(with_columns(**other)).columns)


def test_options_are_checked():
    for options, message in (
        ({"impute": "zero"}, "'impute' must be one of 'mean', 'median', 'indicator'. Got 'zero'"),
        ({"unknown": "drop"}, "'unknown' must be one of 'ignore', 'error'. Got 'drop'"),
        ({"drop": ["a"], "features": ["a"]}, "'a' is in both of the options 'drop' and 'features'"),
        ({"text": ["a"], "hash": ["a"]}, "'a' is in both of the options 'text' and 'hash'"),
        ({"hash": "a"}, r"'hash' must be a list of column names. Got the text 'a'; write \['a'\]"),
    ):
        with pytest.raises(InputError, match=message):
            TableOptions(**options)
    edges = np.array([[0, 1], [1, 0]])
    with pytest.raises(InputError, match="options 'drop', 'impute' name attributes or columns"):
        read_graphs((edges, np.eye(2)), drop=["a"], impute="mean")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"impute": "zero"}, "impute must be one of"),
        ({"unknown": 3}, "unknown must be one of"),
        ({"fill": NAN}, "fill must be a finite number"),
        ({"indicator": True}, "indicator True does not go with impute ''"),
        ({"buckets": 4}, "kind 'numeric' does not go with buckets 4"),
        ({"kind": "hashed"}, "kind 'hashed' does not go with buckets 0"),
    ],
)
def test_damaged_specs(change, message):
    with pytest.raises(InputError, match=message):
        ColumnSpec.from_dict({"name": "a", "kind": "numeric", **change})


def test_what_columns_become():
    size = 120
    graph = graph_with(
        {"impute": "indicator", "hash": ["title"]},
        age=[NAN, *range(1, size)],
        joined=np.datetime64("2020-01-01") + np.arange(size),
        seen=["12:00"] * size,
        title=objects(*[f"t {i}" for i in range(size)]),
        town=objects(None, *["x", "y", "z", "w"] * 29, *["x"] * 3),
        vip=[True, False] * 60,
        w0=[0, 1] * 60,
        name=objects(*[f"n{i}" for i in range(size)]),
        list=objects(*[[1]] * size),
    )
    facts = {fact.name: fact for fact in column_facts(graph)}
    assert {name: fact.becomes for name, fact in facts.items() if not fact.problem} == {
        "age": "number, standardised (mean 60, standard deviation 34.35); 1 missing filled with 60,"
        " and a feature that says where",
        "joined": "date, in days since 1970-01-01, standardised (mean 2020-03-01, standard"
        " deviation 34.64 days)",
        "seen": "one-hot of 1 categories ('12:00')",
        "title": "words hashed into 256 features",
        "town": "one-hot of 4 categories ('w', 'x', 'y' and 1 more); 1 missing (no feature set),"
        " and a feature that says where",
        "vip": "truth value, 0 or 1",
        "w0": "0 and 1, as they are",
    }
    assert facts["name"].problem.startswith("Column 'name' holds text with 120 different values")
    assert "values of type list" in facts["list"].becomes
    words = graph_with(**{f"w{i}": [0, 1] for i in range(5)}, a=[1, 2], b=[3, 3])
    assert in_lines(column_facts(words)) == [
        "w0 to w4 (5 columns): 0 and 1, as they are",
        "a: number, standardised (mean 1.5, standard deviation 0.5)",
        "b: number, the same everywhere, so 0",
    ]
    assert in_lines([facts["name"]]) == ["name: refused (see problems)"]


def test_a_saved_model_treats_new_tables_alike(tmp_path):
    edges = pd.DataFrame({"source": [0, 1, 2, 3], "target": [1, 2, 3, 0]})
    nodes = pd.DataFrame(
        {
            "id": range(4),
            "age": [20, np.nan, 40, 60],
            "town": ["x", "y", None, "x"],
            "since": ["2020-01-01", "2020-02-01", None, "2021-01-01"],
            "note": ["good client", "none", "slow payer", "new"],
        }
    )
    options = {"impute": "indicator", "hash": ["note"], "unknown": "ignore"}
    graph = read_graphs(edges, nodes=nodes, symmetrize=False, **options)
    model = NodeLaGraph(epochs=2, hidden_dim=8, device="cpu", structure="none", symmetrize=False)
    with pytest.warns(GraphLatentWarning) as caught:
        model.fit(graph)
    assert {str(each.message) for each in caught} == {
        "Dates are used as numbers, in days since 1970-01-01 (UTC): 'since'.",
        "The words of text are hashed into 256 features for each column: 'note'.",
        "Missing numbers are filled with the mean: 'age' (1), 'since' (1).",
        "Missing text sets no feature: 'town' (1).",
    }
    again = NodeLaGraph.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.transform(graph), model.transform(graph))
    filled = nodes.assign(town=["x", "y", "elsewhere", "x"], extra=1.0)
    with pytest.warns(GraphLatentWarning) as caught:
        rows_of = [each.transform((edges, filled)) for each in (model, again)]
    np.testing.assert_array_equal(*rows_of)
    notes = {str(each.message) for each in caught}
    assert any("never held when the model was fitted: 'elsewhere'" in note for note in notes)
    assert any(
        "not used, since the model was not fitted on them: 'extra'" in note for note in notes
    )
