"""The differences below main tables."""

from __future__ import annotations

import pytest

from graphlatent.bench.formats import rows
from graphlatent.bench.ledger import Record, append_record
from graphlatent.bench.loading import recipes_of
from graphlatent.bench.rows import method_rows
from graphlatent.bench.tables import differences_of
from ledgers import FIRST, NAME, SECOND, measure, probe_result, table, text

# Another method has lines of its own.
NODE, GRAPH = (
    [d for d in differences_of(recipes_of(name)) if d.first.row not in method_rows()]
    for name in ("2", "1")
)


class TestDifferences:
    BLOCK = -1

    def test_by_hand(self, tmp_path):
        measure(tmp_path, "table2/CS", "paper", {NAME: FIRST})
        measure(tmp_path, "table2/CS", "random", {NAME: SECOND})
        made = table(tmp_path, "2")
        # 10 points more at every seed and split: the interval has no width
        assert (
            text(made, "LaGraph as in the paper minus random-initialised", "CS", self.BLOCK)
            == "+10.00 [+10.00, +10.00]"
        )
        assert text(made, "LaGraph as in the paper minus raw", "CS", self.BLOCK) == "not measured"

    def test_lines(self):
        assert [(m.first.row, m.second.row) for m in NODE] == [
            ("paper", "random"),
            ("paper", "propagated"),
            ("paper", "raw"),
            ("paper", "random"),
            ("paper", "random"),
            ("released", "paper"),
            ("released", "released"),
            ("defaults", "defaults"),
            ("defaults", "raw"),
            ("defaults", "propagated"),
            ("defaults", "paper"),
            ("defaults", "defaults"),
        ]
        assert [
            (m.label.split(":")[0], m.second.row, m.first.result, m.second.result)
            for m in GRAPH
            if m.first.row == "defaults"
        ] == [
            ("linear or RBF SVM", "defaults", "svm/fixed", "svm/untrained"),
            ("linear or RBF SVM", "raw", "svm/fixed", "svm/validation"),
            ("linear or RBF SVM", "wl", "svm/fixed", "svm/validation"),
            ("linear or RBF SVM", "paper", "svm/fixed", "svm/validation"),
            # Propagated features have the linear SVM alone
            ("linear SVM", "defaults", "linear/fixed", "linear/untrained"),
            ("linear SVM", "propagated", "linear/fixed", "linear/validation"),
        ]
        (fixed,) = [
            m
            for m in NODE
            if m.label == "fixed epochs minus random-initialised, features appended to both"
        ]
        assert (fixed.first.result, fixed.second.result) == ("linear/fixed", "linear/fixed")
        for level, probe in (("node", "same probe"), ("graph", "theirs without scaling")):
            (honest,) = [
                m.label
                for m in {"node": NODE, "graph": GRAPH}[level]
                if (m.first.row, m.second.row) == ("released", "paper")
            ]
            assert honest == f"released, chosen on TEST, minus LaGraph as in the paper ({probe})"
        for minus in (*NODE, *GRAPH):
            # The same probe
            assert minus.first.result.split("/")[0] == minus.second.result.split("/")[0]
            assert ("TEST" in minus.label) == (
                minus.first.result.endswith("/test")
            ) and not minus.second.result.endswith("/test")

    def test_other_splits_are_not_paired_and_that_is_said(self, tmp_path):
        measure(tmp_path, "table2/CS", "paper", {"paper-probe/validation": FIRST})
        measure(
            tmp_path, "table2/CS", "released", {"paper-probe/test": [[0.9, 0.9]]}, splits="others"
        )
        made = table(tmp_path, "2")
        line = "released, chosen on TEST, minus LaGraph as in the paper (same probe)"
        assert text(made, line, "CS", self.BLOCK) == "+10.00 (not paired)"
        (found,) = [r for r in rows(made) if r["line"] == line and r["column"] == "CS"]
        assert found["state"] == "not paired" and found["mean"] == 10 and found["low"] is None

    def test_released_on_the_same_splits_is_paired(self, tmp_path):
        measure(tmp_path, "table1/DD", "released", {"rbf/test": FIRST, "rbf/validation": SECOND})
        line = "released, chosen on TEST, minus the same chosen on validation"
        assert text(table(tmp_path, "1"), line, "DD", self.BLOCK) == "+10.00 [+10.00, +10.00]"

    def test_raw_features_measured_once_stand_for_every_seed(self, tmp_path):
        for seed in range(3):
            append_record(
                tmp_path, Record("table2/CS", "paper", seed, {NAME: probe_result([0.5, 0.6])}, {})
            )
        append_record(tmp_path, Record("table2/CS", "raw", 0, {NAME: probe_result([0.6, 0.7])}, {}))
        made = table(tmp_path, "2")
        assert (
            text(made, "LaGraph as in the paper minus raw", "CS", self.BLOCK)
            == "-10.00 [-10.00, -10.00]"
        )
        (found,) = [
            r
            for r in rows(made)
            if r["line"] == "LaGraph as in the paper minus raw" and r["column"] == "CS"
        ]
        assert (found["seeds"], found["splits"]) == (3, 2)

    # Not -0.00
    @pytest.mark.parametrize(("other", "said"), [(0.50001, "+0.00"), (0.5001, "-0.01")])
    def test_nothing_less_than_nothing(self, tmp_path, other, said):
        for row, score in (("paper", 0.5), ("random", other)):
            measure(tmp_path, "table2/CS", row, {NAME: [[score]]})
        made = table(tmp_path, "2")
        assert (
            text(made, "LaGraph as in the paper minus random-initialised", "CS", self.BLOCK)
            == f"{said} (no interval)"
        )
