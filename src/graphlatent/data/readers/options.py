"""Which columns of tables, or attributes of NetworkX and GraphML graphs, mean what."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeAlias, get_args

import numpy as np

from graphlatent.data.column_spec import Impute, Unknown
from graphlatent.data.merging import Merge, checked_merge
from graphlatent.data.readers.messages import listed, shortened
from graphlatent.data.readers.times import checked_until
from graphlatent.errors import InputError, RunFolderError, shown
from graphlatent.io.runfolder import RunFolder

Array: TypeAlias = np.ndarray[Any, Any]
# Options that are lists of columns.
_LISTS = ("features", "drop", "text", "hash", "edge_features")
# Names of delimiters that are hard to type.
_DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
# Which columns mean what in tables without a header, where nothing else is said.
_NUMBERED = {"source": "0", "target": "1", "id": "0"}
# Names of columns that are rarely features.
_LIKE_LABELS = ("label", "labels", "class", "target", "y")
# Options that name columns or attributes that only some sources have.
_NAMING = ("weight", "label", "features", "time", "smiles")
# Options that mean something for tables of edges and nodes only.
_OF_TABLES = ("source", "target", "id", "graph", "delimiter")


@dataclass(frozen=True)
class TableOptions:
    """Which columns mean what.

    Args:
        source: column of the edge table with the id of the node an edge starts from.
        target: column of the edge table with the id of the node an edge goes to.
        weight: column of the edge table, or edge attribute, with the weights; None takes 'weight'
            where there is one.
        id: column of the node table with the nodes' ids.
        graph: column, in both tables, that names the graph of an edge or a node; where it is in
            neither, there is one graph. None: never look for it.
        label: column of the node table, or node attribute, to keep as labels (`y`), or several;
            never a feature.
        features: columns of the node table, or node attributes, to use as features; None takes all
            but ids, graphs, labels and those in `drop`.
        edge_features: columns of the edge table, or edge attributes, to use as features of edges;
            None or () for none; of molecules, None for all.
        smiles: column of a table of molecules, one a row, that holds their SMILES; None for tables
            of edges. Then `id` and `label` are columns of that table.
        invalid: rows that hold no valid SMILES are an 'error' or are left out, 'skip'; None means
            'error'.
        drop: columns or attributes that are not features. Unlike those in `label` they need not be
            there.
        text: feature columns that are text whatever they hold, such as codes written as numbers.
        hash: feature columns of text whose words are hashed into a fixed number of features.
        impute: what a missing number is filled with, learnt when a model is fitted: 'mean',
            'median', or 'indicator' (the mean, and one more feature that is 1 there); None refuses
            missing values.
        unknown: for graphs embedded later, what to do with categories that the fitted graphs did
            not have: 'ignore' (none of the column's features is set) or 'error'; and with columns
            they did not have. None refuses such categories and leaves such columns out.
        delimiter: between the cells of text files; None finds it by the name and the first line.
        encoding: of text files, such as 'latin-1'; None takes UTF-8, or what a byte order mark
            says.
        no_header: the first line of text files is a row; columns are called '0', '1', ...
        merge: the weight of edges that are there more than once: 'max', 'sum', 'mean' or 'count';
            None for 'max', with a warning where that drops weights.
        bipartite: the two columns of the edge table name nodes of two kinds, so that equal ids are
            different nodes; ids then start with the name of their column, such as 'user:7'.
        time: column of the edge table, or edge attribute, with the time of an edge; for `until`.
        until: the last time of the edges that are read, inclusive: a date (2024-06-30: to the end
            of that day; 2024-06: of that month) or a number.
    """

    source: str = "source"
    target: str = "target"
    weight: str | None = None
    id: str = "id"
    graph: str | None = "graph"
    label: str | tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    hash: tuple[str, ...] = ()
    impute: Impute | None = None
    unknown: Unknown | None = None
    delimiter: str | None = None
    encoding: str | None = None
    no_header: bool = False
    edge_features: tuple[str, ...] | None = None
    smiles: str | None = None
    invalid: str | None = None
    merge: Merge | None = None
    bipartite: bool = False
    time: str | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        self._check_columns()
        self._check_edges()
        for name, allowed in (("impute", get_args(Impute)), ("unknown", get_args(Unknown))):
            value = getattr(self, name)
            if value is not None and value not in allowed:
                choices = ", ".join(map(repr, allowed))
                raise InputError(
                    f"The option '{name}' must be one of {choices}. Got {shortened(value)}."
                )
        if not isinstance(self.no_header, bool):
            raise InputError(
                f"The option 'no_header' must be a bool. Got {shortened(self.no_header)}."
            )
        object.__setattr__(self, "delimiter", _checked_delimiter(self.delimiter))
        _check_encoding(self.encoding)

    def _check_columns(self) -> None:
        """Raise where names of columns are none, or one column is to be two things."""
        for name, number in _NUMBERED.items():
            value = getattr(self, name)
            if type(value) is int:
                object.__setattr__(self, name, str(value))
            elif self.no_header is True and value == name:
                object.__setattr__(self, name, number)
        for name in _LISTS:
            value = getattr(self, name)
            if isinstance(value, str):
                raise InputError(
                    f"The option '{name}' must be a list of column names. Got the text {value!r};"
                    f" write [{value!r}]."
                )
            if value is not None:
                object.__setattr__(self, name, _names(value, name))
        if self.label is not None and not isinstance(self.label, str):
            object.__setattr__(self, "label", _names(self.label, "label") or None)
        if self.invalid not in (None, "error", "skip"):
            raise InputError(
                f"The option 'invalid' must be 'error' or 'skip'. Got {shortened(self.invalid)}."
            )
        if self.invalid is not None and self.smiles is None:
            raise InputError("The option 'invalid' has no effect without 'smiles'. Leave it out.")
        if self.source == self.target:
            raise InputError(
                "The options 'source' and 'target' must name two columns. Got"
                f" {self.source!r} for both."
            )
        both = [name for name in self.labels if name in (self.features or ())]
        if both:
            raise InputError(
                f"Column {both[0]!r} is a label and cannot be a feature too. Take it out of"
                " 'features', or out of 'label'."
            )
        for one, other in (
            ("drop", "features"),
            ("drop", "text"),
            ("drop", "hash"),
            ("text", "hash"),
        ):
            both = [name for name in getattr(self, one) if name in (getattr(self, other) or ())]
            if both:
                raise InputError(
                    f"Column {both[0]!r} is in both of the options '{one}' and '{other}'. Take it"
                    " out of one of them."
                )

    def _check_edges(self) -> None:
        """Raise where an option about edges cannot be."""
        if self.merge is not None:
            checked_merge(self.merge)
        if self.merge == "count" and self.weight is not None:
            raise InputError(
                "merge='count' weighs edges by how often they are there, so that the weights in"
                f" {self.weight!r} are not used. Leave out one of the options 'merge' and"
                " 'weight'."
            )
        if not isinstance(self.bipartite, bool):
            raise InputError(f"The option 'bipartite' must be a bool. Got {shown(self.bipartite)}.")
        object.__setattr__(self, "until", checked_until(self.until, time=self.time))

    @property
    def labels(self) -> tuple[str, ...]:
        """The label columns, none, one or several."""
        if self.label is None:
            return ()
        return (self.label,) if isinstance(self.label, str) else self.label

    def refuse_names(self, kind: str, *, allowed: str | None = None) -> None:
        """Raise where an option names columns or attributes, for graphs that have neither.

        Args:
            kind: what has none, for the message: 'a PyG Data', or a path.
            allowed: an option that it knows nevertheless.
        """
        lists = ("drop", "text", "hash", "impute", "edge_features")
        names = [name for name in _NAMING if getattr(self, name) is not None]
        names += [name for name in lists if getattr(self, name)]
        names = [name for name in names if name != allowed]
        if names:
            options, verb, them = _as_subject(names, "names", "name")
            raise InputError(
                f"{options} {verb} attributes or columns of NetworkX graphs, GraphML files and"
                f" tables; {kind} has none. Leave {them} out."
            )
        self.refuse_of_tables(kind)

    def refuse_of_tables(self, kind: str) -> None:
        """Raise where an option is about tables of edges and nodes, for graphs of another kind."""
        usual = TableOptions(no_header=self.no_header is True)
        given = {name: getattr(self, name) for name in _OF_TABLES}
        names = [name for name, value in given.items() if value not in (None, getattr(usual, name))]
        names += ["no_header"] if self.no_header else []
        if names:
            options, verb, them = _as_subject(names, "is", "are")
            raise InputError(
                f"{options} {verb} for tables of edges and nodes; {kind} is no table. Leave {them}"
                " out."
            )

    def without_tables(self) -> TableOptions:
        """The same options for a graph that is not in tables."""
        usual = TableOptions()
        return replace(
            self, **{name: getattr(usual, name) for name in (*_OF_TABLES, "no_header", "bipartite")}
        )

    def feature_names(self, columns: Iterable[str]) -> list[str]:
        """The features among the columns that are there, or `features` where that was given."""
        if self.features is not None:
            return list(self.features)
        return [name for name in columns if name not in (*self.labels, *self.drop)]

    def without_labels(self) -> TableOptions:
        """The same options for nodes whose labels are not needed.

        Label columns are left out of the features, whether or not the table has them.
        """
        return replace(self, label=None, drop=(*self.labels, *self.drop))

    def without_nodes(self) -> TableOptions:
        """The same options for edges without a node table, whose columns are not there."""
        return replace(self, label=None, features=None, drop=(), text=(), hash=(), impute=None)

    def without_until(self) -> TableOptions:
        """The same options for edges of any time."""
        return replace(self, time=None, until=None)

    def to_dict(self) -> dict[str, Any]:
        """The options as plain values that TOML and JSON can hold, without those not given."""
        values = {k: value for k, value in asdict(self).items() if value not in (None, False)}
        values = {k: value for k, value in values.items() if value or k not in ("text", "hash")}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    def keys_of(self, role: str) -> tuple[str, ...]:
        """The columns that a table must have: of edges both ends, of nodes the id."""
        return {"edges": (self.source, self.target), "nodes": (self.id,)}.get(role, ())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableOptions:
        """The options that `to_dict` wrote; one that is not there is None, (), or False.

        Raises:
            InputError: where a key or a value is not what `to_dict` writes.
        """
        known = [field.name for field in fields(cls)]
        wrong = [
            key
            for key, value in values.items()
            if key not in known
            or not (
                isinstance(value, bool)
                if key in ("no_header", "bipartite")
                else _is_names(value, several=key in ("label", *_LISTS))
            )
        ]
        missing = [key for key in ("source", "target", "id") if key not in values]
        if wrong or missing:
            raise InputError(
                f"In [reading], {', '.join(map(repr, wrong or missing))} must be the name of a"
                " column, or for 'label', 'features', 'drop' and 'edge_features' a list of names."
            )
        empty = {"drop": (), "text": (), "hash": (), "no_header": False, "bipartite": False}
        return cls(**{**dict.fromkeys(known), **empty, **values})


def options_of_run(run: RunFolder) -> TableOptions:
    """The options that the input of a run was read with; the defaults where it does not say.

    Raises:
        RunFolderError: where the run's config.toml holds something else in their place.
    """
    reading = run.read_config().reading if run.started else {}
    try:
        return TableOptions.from_dict(reading) if reading else TableOptions()
    except InputError as error:
        raise RunFolderError(
            f"{run.path / 'config.toml'} is damaged. {error} Copy the file again, or train again."
        ) from error


def label_hints(features: Iterable[str]) -> list[str]:
    """For each column that nobody named as a feature and whose name is a label's: what to do."""
    return [
        f"column '{name}' is read as a feature, so embeddings will know it. If it is what you want"
        " to predict, keep it out with the option 'label'; if it is a feature, say so with the"
        " option 'features'."
        for name in features
        if name.lower() in _LIKE_LABELS
    ]


def unused_edge_columns(
    columns: Iterable[str],
    *,
    where: str,
    kind: str = "columns",
    weighted: bool = False,
    way_out: str = "weight=NAME (on the command line --weight NAME)",
) -> dict[str, str]:
    """A note for `RawGraph.notes` that names edge columns, or attributes, that are not used."""
    names = [str(name) for name in columns]
    if not names:
        return {}
    weight = "" if weighted else f" For numbers as weights: {way_out}."
    text = (
        f"{where}: edge {kind} not used: {listed(names)}.{weight} As features of edges:"
        " edge_features=[NAME] (on the command line --edge-features NAME)."
    )
    return {f"edge {kind} {', '.join(names)}": text}


def stack_labels(columns: Sequence[Array]) -> Array | None:
    """The labels of one column [N], of several as columns of a matrix [N, K], or None."""
    if len(columns) < 2:
        return columns[0] if columns else None
    numeric = all(column.dtype.kind in "biuf" for column in columns)
    return np.stack(columns if numeric else [c.astype(object) for c in columns], axis=1)


def _as_subject(names: Sequence[str], one: str, several: str) -> tuple[str, str, str]:
    """Options as the subject of a sentence, its verb, and the pronoun for them."""
    if len(names) == 1:
        return f"The option {names[0]!r}", one, "it"
    return f"The options {', '.join(map(repr, names))}", several, "them"


def _checked_delimiter(value: Any) -> str | None:
    """The character between cells. Raises `InputError` where it cannot be one."""
    value = _DELIMITERS.get(value, value) if isinstance(value, str) else value
    if value is None:
        return None
    if not isinstance(value, str) or len(value) != 1 or value.isalnum() or value in '"\r\n._':
        raise InputError(
            "The option 'delimiter' must be a single character such as ';', or 'tab' or 'space'."
            f" Got {shortened(value)}."
        )
    if not value.isascii():
        raise InputError(f"The option 'delimiter' must be an ASCII character. Got {value!r}.")
    return value


def _check_encoding(value: Any) -> None:
    """Raise where there is no such encoding of text."""
    with suppress(LookupError, TypeError, ValueError):
        if value is None or codecs.lookup(value)._is_text_encoding:
            return
    raise InputError(
        "The option 'encoding' must be one that Python knows, such as 'utf-8', 'latin-1', 'cp1252'"
        f" or 'utf-16'. Got {shortened(value)}."
    )


def _names(value: Any, option: str) -> tuple[Any, ...]:
    """The names in a list. They need not be text: NetworkX takes any object for a name."""
    try:
        return tuple(value)
    except TypeError as error:
        raise InputError(
            f"The option '{option}' must be a list of column names. Got {shortened(value)}."
        ) from error


def _is_names(value: object, *, several: bool) -> bool:
    if several and isinstance(value, list | tuple):
        return all(isinstance(each, str) for each in value)
    return isinstance(value, str)
