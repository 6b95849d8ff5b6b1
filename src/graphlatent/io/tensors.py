"""Named tensors in a safetensors file, written atomically."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from graphlatent.errors import RunFolderError
from graphlatent.io.atomic import write_atomically

_KEY = "graphlatent"


def save_tensors(path: Path, tensors: Mapping[str, Tensor], about: str) -> None:
    """Write named tensors and one text.

    The text is under a single key, since safetensors writes several keys in no fixed order.
    `safetensors.torch.save_file` is not used because it leaves a temporary file behind when the
    process is killed.
    """
    # Cloned, because safetensors refuses tensors that share memory.
    copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    content = save(copies, metadata={_KEY: about})
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], str | None]:
    """The tensors and the text of a file; the text is None where the file has none.

    Raises:
        RunFolderError: where the file is truncated or damaged.
    """
    try:
        with safe_open(str(path), framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in list(file.keys())}
            return tensors, (file.metadata() or {}).get(_KEY)
    except (SafetensorError, OSError, ValueError) as error:
        raise RunFolderError(
            f"{path} is truncated or damaged: {error}. Copy it again, or train again."
        ) from error
