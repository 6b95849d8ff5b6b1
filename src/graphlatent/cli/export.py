"""`graphlatent export`: embeddings in another format, narrower or with fewer digits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphlatent.cli.output import Debug, Json, Overwrite, Quiet, command_output
from graphlatent.cli.saved_options import EmbeddingsPath
from graphlatent.errors import ConfigError, OutputError, bad_argument

FORMATS = {"parquet": ".parquet", "csv": ".csv", "npz": ".npz", "word2vec": ".vec"}


def export(
    path: EmbeddingsPath,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", help="parquet, csv, npz or word2vec (by the ending of --out, else parquet)."
        ),
    ] = None,
    dim: Annotated[
        int | None,
        typer.Option("--dim", help="Keep this many principal components only.", min=1),
    ] = None,
    float16: Annotated[
        bool, typer.Option("--float16", help="Keep three digits of each number, in half the space.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File to write (beside the embeddings, named by what it is)."),
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write embeddings in another format, and make them smaller."""
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        target = _target(path, form, out, dim=dim, float16=float16)
        from graphlatent.embedding import check_embedding_path
        from graphlatent.explore.reduction import kept_variance
        from graphlatent.saved import read_embeddings

        _refuse_same_file(path, target)
        check_embedding_path(target, overwrite=overwrite)
        embeddings = read_embeddings(path)
        kept = None if dim is None else kept_variance(embeddings.values, dim)
        small = embeddings if dim is None else embeddings.reduced(dim)
        small.save(target, overwrite=overwrite, float16=float16)
        num_rows, width = small.values.shape
        size = target.stat().st_size
        share = "" if kept is None else f", with {kept:.1%} of the variance"
        output.say(f"{num_rows:,} embeddings of width {width}{share}: {target}, {size:,} bytes")
        output.result(
            {
                "rows": num_rows,
                "embedding_dim": width,
                "kept_variance": kept,
                "embeddings": str(target),
                "bytes": size,
            }
        )


def _target(
    path: Path, form: str | None, out: Path | None, *, dim: int | None, float16: bool
) -> Path:
    """The file to write."""
    if form is not None and form not in FORMATS:
        allowed = f"one of {', '.join(FORMATS)}"
        raise bad_argument("--format", owner="export", allowed=allowed, got=form)
    suffix = FORMATS[form or "parquet"]
    if out is None:
        folder, stem = (path, "embeddings") if path.is_dir() else (path.parent, path.stem)
        parts = [stem, "" if dim is None else str(dim), "float16" if float16 else ""]
        return folder / ("-".join(part for part in parts if part) + suffix)
    if form is not None and out.suffix.lower() != suffix:
        raise ConfigError(
            f"--format {form} is written to a file that ends in {suffix}, and --out is"
            f" '{out.name}'. Leave one of them out."
        )
    return out


def _refuse_same_file(path: Path, target: Path) -> None:
    """Raise where the embeddings would replace themselves, and could not be had back."""
    source = path / "embeddings.parquet" if path.is_dir() else path
    if target.exists() and source.exists() and target.samefile(source):
        raise OutputError(
            f"{target} is the file that is read, so it is not replaced. Choose another --out."
        )
