"""Edges up to a time, in every format whose edges have columns or attributes."""

from __future__ import annotations

import datetime as dt

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from graphlatent import read_graphs
from graphlatent.data.readers.options import TableOptions
from graphlatent.errors import GraphLatentWarning, InputError

DAYS = ["2024-06-29", "2024-06-30", "2024-07-01", "2025-01-01"]
SOURCE, TARGET = [0, 1, 2, 0], [1, 2, 3, 3]
WITH_HOURS = ["2024-06-30 23:59:59", "2024-07-01 00:00:00", "2024-07-01 09:30", "2025-01-01"]


def pairs(graph):
    return {tuple(sorted(edge)) for edge in graph.edge_index.T.tolist()}


def read(source, until, **options):
    with pytest.warns(GraphLatentWarning) as caught:
        graph = read_graphs(source, time="when", until=until, symmetrize=False, **options)
    (note,) = [str(each.message) for each in caught if "edges until" in str(each.message)]
    assert note.endswith(f"inclusive: {graph.num_edges} of 4 are used.")
    return graph.num_edges


def frame(when):
    return pd.DataFrame({"source": SOURCE, "target": TARGET, "when": when})


@pytest.mark.parametrize(
    ("until", "count"),
    [
        ("2024-06-29", 1),
        ("2024-06-30", 2),
        ("2024-06", 2),
        ("2024", 3),
        (" 2025-01-01 ", 4),
        ("2024-06-30T00:00", 2),
        ("2024-06-30T02:00+02:00", 2),
        ("2024-06-30T01:00+02:00", 1),
        (dt.date(2024, 6, 30), 2),
        (dt.datetime(2024, 6, 29, 23, 59), 1),
        (pd.Timestamp("2024-07-01"), 3),
        (np.datetime64("2024-06-30"), 2),
    ],
)
def test_dates_are_inclusive_and_stand_for_their_whole_length(until, count):
    assert read(frame(DAYS), until) == count
    assert read(frame(pd.to_datetime(DAYS)), until) == count
    assert read(frame([dt.date.fromisoformat(day) for day in DAYS]), until) == count


def test_times_of_day():
    edges = frame(pd.to_datetime(WITH_HOURS, format="ISO8601"))
    for until, count in (
        ("2024-06-30", 1),
        ("2024-07-01 00", 2),
        ("2024-07-01 09", 3),
        ("2024-07-01 09:29", 2),
        ("2024-07-01 09:30:00.0", 3),
    ):
        assert read(edges, until) == count
        assert read(frame(WITH_HOURS), until) == count
        assert read(frame(edges["when"].dt.tz_localize("UTC")), until) == count


@pytest.mark.parametrize("kind", [np.int64, np.float32, np.uint8])
def test_numbers_are_inclusive(kind):
    edges = frame(np.array([3, 7, 8, 20], dtype=kind))
    for until, count in (("7", 2), (7, 2), (7.5, 2), ("8", 3), (np.int64(100), 4), ("2e1", 4)):
        assert read(edges, until) == count


def test_large_integers_are_compared_exactly():
    edges = frame([2**60, 2**60 + 1, 2**60 + 2, 2**60 + 3])
    assert read(edges, 2**60 + 1) == 2


def test_every_format_that_has_edge_columns(tmp_path):
    edges = frame(DAYS)
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(4))
    for u, v, day in zip(SOURCE, TARGET, DAYS, strict=True):
        graph.add_edge(u, v, when=day)
    edges.to_csv(tmp_path / "e.csv", index=False)
    edges.to_parquet(tmp_path / "e.parquet")
    nx.write_graphml_xml(graph, tmp_path / "e.graphml")
    nodes = pd.DataFrame({"id": range(4)})
    forms = [graph, tmp_path / "e.graphml", (edges, nodes), (tmp_path / "e.csv", nodes)]
    forms += [edges, pa.Table.from_pandas(edges), tmp_path / "e.csv", tmp_path / "e.parquet"]
    for i, form in enumerate(forms):
        with pytest.warns(GraphLatentWarning, match="edges until 2024-06, inclusive: 2 of 4"):
            found = read_graphs(form, time="when", until="2024-06", symmetrize=False)
        assert pairs(found) == {(0, 1), (1, 2)}
        # Nodes without an edge are there only where something but the edges names them.
        assert found.num_nodes == (4 if i < 4 else 3)
    assert graph.number_of_edges() == 4


def test_rows_keep_their_number_in_messages():
    edges = frame(DAYS).assign(weight=[1, None, 1, 1]).iloc[::-1]
    with pytest.raises(InputError, match="nothing in row 2"):
        read_graphs(edges, time="when", until="2024-06")


@pytest.mark.parametrize(
    ("when", "until", "message"),
    [
        (
            DAYS,
            "3",
            r"column 'when' holds times such as '2024-06-29', but the option 'until' is the number"
            r" 3",
        ),
        (
            [1, 2, 3, 4],
            "2024-06-30",
            r"holds numbers such as 1, but the option 'until' is the date 2024-06-30. Give a number"
            r" in the unit of the column, in seconds since 1970 \(UTC\) 1719791999",
        ),
        (["30/06/2024", *DAYS[1:]], "2024-07", r"'30/06/2024' in row 0 .* is no date"),
        ([*DAYS[:2], None, DAYS[0]], "2024-07", r"1 time is missing, the first in row 2"),
        ([True, False, True, True], "2024-07", "True in row 0"),
        (pd.to_timedelta([1, 2, 3, 4]), "2024-07", "is no date that can be read"),
        (DAYS, "2024-06-28", r"no edge is from 2024-06-28 or before; the first is from 2024-06-29"),
    ],
)
def test_times_that_cannot_be_compared(when, until, message):
    with pytest.raises(InputError, match=message):
        read_graphs(frame(when), time="when", until=until)


def test_wrong_options():
    for wrong in ("soon", "2024-13", "30/06/2024", "2024T10", "", "nan", True, [3]):
        with pytest.raises(InputError, match=r"'until' is .* no date and no number. Write a date"):
            TableOptions(time="when", until=wrong)
    with pytest.raises(InputError, match="'until' needs the column of times"):
        TableOptions(until="2024")
    with pytest.raises(InputError, match="'time' is for 'until'"):
        TableOptions(time="when")
    with pytest.raises(InputError, match="there is no column 'day'"):
        read_graphs(frame(DAYS), time="day", until="2024")
    edges = np.array([[0, 1], [1, 0]])
    with pytest.raises(InputError, match=r"option 'time' names .* has none"):
        read_graphs((edges, None), time="when", until="2024")


def test_dates_at_the_end_of_the_calendar():
    """What ends with the year 9999 includes every time that there is."""
    days = ["2024-06-29", "9999-12-31", "2024-07-01", "9998-01-01"]
    for until in ("9999", "9999-12", "9999-12-31", "9999-12-31 23", "9999-12-31 23:59:59"):
        assert read(frame(days), until) == 4
    assert read(frame(days), "9998") == 3
    with pytest.raises(InputError, match="'0000-01', no date and no number"):
        read_graphs(frame(days), time="when", until="0000-01")
