"""Whether a record was measured with other settings than its recipe has today."""

from __future__ import annotations

from graphlatent.bench.fingerprint import define, fingerprint
from graphlatent.bench.ledger import Record
from graphlatent.bench.loading import load_recipe
from graphlatent.bench.recipe_files import cell_names
from graphlatent.bench.rows import all_rows


def is_stale(record: Record) -> bool:
    """Whether `bench run` would measure the record again.

    Records of recipe files of the user's own, of rows that are not registered here and without a
    stored definition cannot be compared, and are not stale.
    """
    row = all_rows().get(record.row)
    if record.cell not in cell_names() or row is None or not record.fingerprint:
        return False
    return record.fingerprint != fingerprint(define(load_recipe(record.cell), row))
