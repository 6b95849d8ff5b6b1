"""Tables of variants: what was printed, what was measured, and what needs no training above
them.
"""

from __future__ import annotations

from graphlatent.bench.formats import rows
from ledgers import FIRST, GRAPH_SETS, NAME, SECOND, measure, note, table, text

UNTRAINED = ("raw features", "propagated features", "random-initialised encoder")


class TestAblations:
    def test_printed_and_measured_side_by_side(self, tmp_path):
        measure(
            tmp_path,
            "table9/NCI1-mse-embed",
            "paper",
            {NAME: FIRST, "linear/fixed": [[0.1, 0.1], [0.1, 0.1]]},
        )
        made = table(tmp_path, "9", absent=["RDT-M5K"])
        assert text(made, "MSE-Embed", "NCI1") == "79.9 published / 80.0 ± 7.1"
        assert text(made, "CE-Output", "NCI1") == "79.9 published / not measured"
        assert text(made, "CE-Output", "RDT-M5K") == "55.7 published / data not available"
        assert made.blocks[0].columns == GRAPH_SETS
        assert [line.label for line in made.blocks[0].lines] == [
            *UNTRAINED,
            "MSE-Embed",
            "MSE-Output",
            "CE-Embed",
            "CE-Output",
        ]
        assert (
            "measured: On validation." in made.notes
            and "Every score: 2 seeds x 2 splits." in made.notes
        )

    def test_one_epoch_shows_the_fixed_result(self, tmp_path):
        measure(tmp_path, "alpha/CS-5", "paper", {NAME: FIRST, "linear/fixed": SECOND})
        made = table(tmp_path, "alpha")
        assert text(made, "alpha 5", "CS") == "70.0 ± 7.1"  # no number is printed
        assert "published: no numbers are printed." in made.notes
        # To be like the lines below it
        appended = f"{UNTRAINED[2]}, features appended as in the paper"
        assert [line.label for line in made.blocks[0].lines] == [
            *UNTRAINED[:2],
            appended,
            *(f"alpha {a}" for a in (1, 2, 5, 10, 20, 50, 100)),
        ]

    def test_what_needs_no_training_stands_above(self, tmp_path):
        measure(tmp_path, "table9/NCI1-mse-embed", "paper", {NAME: FIRST})
        measure(tmp_path, "table1/NCI1", "random", {NAME: SECOND})
        measure(tmp_path, "table1/NCI1", "paper", {NAME: [[0.1]]})  # no concern of this table
        measure(tmp_path, "table2/CS", "random", {NAME: FIRST, "linear/fixed": SECOND})
        # Other features
        measure(tmp_path, "binarized/CS", "random", {NAME: FIRST, "linear/fixed": FIRST})
        measure(tmp_path, "table3/Flickr-shape-all", "raw", {NAME: [[0.8]]})
        nine, alpha, three = (
            table(tmp_path, name, absent=["RDT-M5K"]) for name in ("9", "alpha", "3")
        )
        assert (text(nine, UNTRAINED[2], "NCI1"), text(nine, UNTRAINED[2], "RDT-M5K")) == (
            "70.0 ± 7.1",
            "data not available",
        )
        assert text(nine, UNTRAINED[0], "NCI1") == "not measured"
        assert nine.notes[-1].startswith("4 records")
        assert (
            text(alpha, f"{UNTRAINED[2]}, features appended as in the paper", "CS") == "70.0 ± 7.1"
        )
        assert text(three, UNTRAINED[0], "Flickr-shape") == "80.0"

    def test_memory_of_table_3(self, tmp_path):
        measure(
            tmp_path,
            "table3/Flickr-100",
            "paper",
            {"linear/fixed": [[0.07]]},
            training={"peak_memory_mb": 777},
        )  # the first, which pays more
        measure(
            tmp_path,
            "table3/Flickr-100",
            "paper",
            {"linear/fixed": [[0.05]]},
            seeds=[1],
            training={"peak_memory_mb": 712.4},
        )
        measure(
            tmp_path,
            "table3/Flickr-100",
            "paper",
            {"linear/fixed": [[0.06]]},
            seeds=[2],
            training={"peak_memory_mb": 700},
        )
        measure(
            tmp_path,
            "table3/Physics-all",
            "paper",
            {"linear/fixed": [[0.9]]},
            training={"epochs": 3},
        )
        made = table(tmp_path, "3", absent=["Reddit"])
        assert text(made, "100 nodes", "Flickr") == "6.07, 1389 MB published / 6.0 ± 1.0, 712 MB"
        assert text(made, "all nodes", "Reddit") == "95.22, 16933 MB published / data not available"
        assert text(made, "all nodes", "Physics") == "90.0"
        assert text(made, "all nodes", "Reddit-shape") == "not measured"  # synthetic
        assert "its scores say nothing about Reddit" in note(made, "Reddit-shape: ")
        (found,) = [r for r in rows(made) if (r["line"], r["column"]) == ("100 nodes", "Flickr")]
        assert (found["memory_mb"], found["published_memory_mb"], found["published"]) == (
            712.4,
            1389,
            6.07,
        )

    def test_other_tables_show_no_memory(self, tmp_path):
        measure(
            tmp_path, "table9/DD-ce-embed", "paper", {NAME: FIRST}, training={"peak_memory_mb": 700}
        )
        assert text(table(tmp_path, "9"), "CE-Embed", "DD") == "78.1 published / 80.0 ± 7.1"
