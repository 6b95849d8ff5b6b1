"""Stores, the folders that `graphlatent ingest` wrote, as graphs in memory."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from graphlatent.data.assemble import assemble
from graphlatent.data.cut import take_apart
from graphlatent.data.graph import GraphData
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.store.layout import is_store
from graphlatent.data.store.share import is_shards, own_shard
from graphlatent.data.store.store import GraphStore
from graphlatent.display import listed
from graphlatent.errors import ConfigError, InputError
from graphlatent.io.regular_files import exists, is_folder

# Options that are used when features are encoded, after reading.
_LATER = ("impute", "unknown")


def is_store_path(source: object) -> bool:
    """Whether `source` is the path of a store, or of a folder of shards."""
    if not isinstance(source, str | Path) or str(source) == "" or not exists(source):
        return False
    return is_folder(Path(source)) and (is_store(Path(source)) or is_shards(Path(source)))


def opened(path: Path) -> GraphStore:
    """The store in a folder; of a folder of shards, the one that this process has.

    Raises:
        InputError: as `GraphStore.open` and `own_shard`.
    """
    if not is_shards(path):
        return GraphStore.open(path)
    share = own_shard(path)
    return GraphStore.open(path / str(share.index), share=share)


def refuse_shards(source: object) -> None:
    """Raise an `InputError` where `source` is the path of a folder of shards."""
    if is_store_path(source) and is_shards(Path(str(source))):
        raise InputError(
            f"{source} is a folder of shards, on which several processes train. Give the whole"
            " store, or one shard (a folder in it) as a store of its own."
        )


def open_store(source: object) -> GraphStore | None:
    """The store that `source` is, or is the path of; None for anything else."""
    if isinstance(source, GraphStore):
        return source
    return opened(Path(str(source))) if is_store_path(source) else None


def check_directions(store: GraphStore, *, symmetrize: bool) -> None:
    """Raise where a store that is not read into memory has other directions than are asked for.

    Raises:
        ConfigError: where it has both directions of each edge and one is to be kept, or the other
            way round.
    """
    if symmetrize and not store.undirected:
        raise ConfigError(
            f"symmetrize=True does not fit {store.path}, which keeps directions. Set"
            " symmetrize=False, or ingest the edges without --directed."
        )
    if not symmetrize and store.about["symmetrized"]:
        raise ConfigError(
            f"symmetrize=False came too late for {store.path}: its edges were read in both"
            " directions. Ingest them with --directed."
        )


def read_store(
    source: GraphStore | str | Path, nodes: object, *, options: TableOptions, symmetrize: bool
) -> GraphData:
    """The graph in a store.

    Args:
        source: the store, or its path.
        nodes: must be None; a store brings its nodes.
        options: `impute` and `unknown`; others must be those that the tables were read with.
        symmetrize: give every edge its reverse, where directions were kept.

    Raises:
        InputError: where other options are given than the tables were read with, a file is damaged,
            or the graph needs more memory than reading may take.
    """
    store = store_read_with(source, nodes, options=options)
    graph = store.to_graph()
    if symmetrize and not graph.undirected:
        graph = assemble(take_apart(graph, name=str(store.path)), merge=store.reading.merge)
    return replace(graph, reading=store.reading)


def store_read_with(
    source: GraphStore | str | Path, nodes: object, *, options: TableOptions
) -> GraphStore:
    """A store, with the options that are not of its tables but of a model; arguments as above."""
    path = source.path if isinstance(source, GraphStore) else Path(source)
    if nodes is not None:
        raise InputError(
            f"{path} is a store, which brings its own nodes. Leave the option 'nodes' out."
        )
    store = source if isinstance(source, GraphStore) else opened(path)
    stored, usual = store.reading, TableOptions()
    changed = [
        field.name
        for field in fields(TableOptions)
        if getattr(options, field.name)
        not in (getattr(usual, field.name), getattr(stored, field.name))
        and field.name not in _LATER
    ]
    # Labels need not be there; those that are were kept out of the features.
    if set(options.drop) <= {*stored.drop, *stored.labels}:
        changed = [name for name in changed if name != "drop"]
    if changed:
        raise InputError(
            f"{path} is a store, whose tables are read already; {listed(changed)} cannot be changed"
            " any more. Leave the option out, or ingest the tables again with it."
        )
    given = {name: getattr(options, name) for name in _LATER if getattr(options, name) is not None}
    if not given:
        return store
    return replace(store, about={**store.about, "reading": replace(stored, **given).to_dict()})
