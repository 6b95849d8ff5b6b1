"""Named tensors in a safetensors file, written atomically and with a checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from graphlatent.errors import RunFolderError
from graphlatent.io.atomic import write_atomically
from graphlatent.io.regular_files import open_regular

_KEY = "graphlatent"
# Between the text and the checksum; the text has no line ends.
_MARK = "\nsha256:"
# Longer headers are none of ours.
_HEADER = 1 << 24


def save_tensors(path: Path, tensors: Mapping[str, Tensor], about: str) -> None:
    """Write named tensors and one line of text, with a checksum of all.

    Text and checksum are under a single key, since safetensors writes several keys in no fixed
    order. `safetensors.torch.save_file` is not used because it leaves a temporary file behind when
    the process is killed.
    """
    # Cloned, because safetensors refuses tensors that share memory.
    copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    content = save(copies, metadata={_KEY: about + _MARK + _checksum(copies, about)})
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], str | None]:
    """The tensors and the text of a file; the text is None where the file has none.

    A file of an earlier version has no checksum, and is read without.

    Raises:
        RunFolderError: where the file is truncated, damaged or changed.
    """
    try:
        # Read once: `safe_open` opens the file twice, and a running process may replace it between.
        with open_regular(path) as file:
            content = file.read()
        tensors, text = dict(sorted(load(content).items())), _text(content)
    except OSError as error:
        raise RunFolderError(
            f"Cannot read {path}: {error.strerror or error}. Copy it again, or train again."
        ) from error
    except MemoryError as error:
        raise RunFolderError(
            f"{path} does not fit into memory. Read it on a larger machine, or train again."
        ) from error
    except (SafetensorError, ValueError, LookupError) as error:
        raise RunFolderError(
            f"{path} is truncated or damaged: {error}. Copy it again, or train again."
        ) from error
    if text is None or _MARK not in text:
        return tensors, text
    about, _, checksum = text.rpartition(_MARK)
    if checksum != _checksum(tensors, about):
        raise RunFolderError(
            f"{path} is not as it was saved: its checksum differs. Copy it again, or train again."
        )
    return tensors, about


def is_ours(path: Path) -> bool:
    """Whether a file was written by `save_tensors`."""
    try:
        with open_regular(path) as file:
            return _text(file.read(8) + file.read(_HEADER)) is not None
    except (OSError, ValueError):
        return False


def _text(content: bytes) -> str | None:
    """The text in the header of a file: its length in 8 bytes, and a JSON object."""
    size = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + size])
    except RecursionError:
        return None
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    text = metadata.get(_KEY) if isinstance(metadata, dict) else None
    return text if isinstance(text, str) else None


def _checksum(tensors: Mapping[str, Tensor], about: str) -> str:
    """SHA-256 over names, types, shapes and bytes of the tensors, and the text."""
    digest = hashlib.sha256(about.encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
