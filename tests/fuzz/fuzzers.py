"""The fuzzers, with their shares (in percent) of all cases and their limits."""

from __future__ import annotations

from importlib.util import find_spec

from fuzz import folders, settings, signals, stores
from fuzz.harness import Fuzzer
from fuzz.other_files import graphml, npz, tu
from fuzz.parquet import parquet
from fuzz.round_trips import round_trip
from fuzz.text_tables import text_tables

FUZZERS = (
    Fuzzer("tables", text_tables, share=17),
    Fuzzer("parquet", parquet, share=10),
    Fuzzer("graphml", graphml, share=9),
    Fuzzer("npz", npz, share=8),
    Fuzzer("tu", tu, share=8),
    Fuzzer("round-trips", round_trip, share=13),
    Fuzzer("run-folders", folders.folders, share=16, batch=10, prepare=folders.prepare),
    # Stores are written with DuckDB.
    *(
        (Fuzzer("stores", stores.stores, share=6, prepare=stores.prepare),)
        if find_spec("duckdb")
        else ()
    ),
    Fuzzer(
        "settings",
        settings.settings,
        share=11.5,
        # A setting may ask for more memory than there is.
        allowed=frozenset({"memory"}),
        prepare=settings.prepare,
    ),
    Fuzzer("kill", signals.kill, share=1, seconds=60, batch=5, prepare=signals.prepare),
    Fuzzer("interrupt", signals.interrupt, share=0.5, seconds=60, batch=5, prepare=signals.prepare),
)
