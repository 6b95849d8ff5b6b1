"""Changes of a run folder that an attacker, or a wrong program, could make."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3, 10**4, 10**9, 2**63, 10**30, 0.5, -2.5, 1e300),
    *(float("nan"), float("inf"), "", "a", "1", "nan", "../../outside/mine.txt", "x" * 10_000),
    *("os.system", "__import__('os')", "\x00", [], [1], [[]], ["a", 1, None], {}, {"a": 1}),
)


def other_json(run: Path, rng: random.Random) -> str:
    """Another value, key or length somewhere in a JSON file."""
    path = rng.choice(sorted(run.glob("*.json")))
    value = {"": json.loads(path.read_text())}
    places = list(_places(value))
    for _ in range(rng.choice((1, 1, 2))):
        holder, key = rng.choice(places)
        how = rng.choice(("value", "value", "value", "drop", "double", "add"))
        new = rng.choice(VALUES)
        try:
            if how == "value":
                holder[key] = new
            elif how == "drop":
                del holder[key]
            elif isinstance(holder, list):
                holder.append(holder[key] if how == "double" else new)
            else:
                holder[f"{key}2"] = holder[key] if how == "double" else new
        except (KeyError, IndexError, TypeError):
            # An earlier change took the place away.
            continue
    path.write_text(json.dumps(value.get("")))
    return f"{path.name}: {path.read_text()[:3000]}"


def _places(value: Any) -> list[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    found = []
    for key in keys:
        # The outermost value is seldom replaced.
        found += [(value, key)] if key != "" else []
        if isinstance(value[key], dict | list):
            found += _places(value[key])
    return found or [(value, "")]


def broken_json(run: Path, rng: random.Random) -> str:
    """Text that JSON parsers stumble over."""
    path = rng.choice(sorted(run.glob("*.json")))
    text = path.read_text()
    text = rng.choice(
        ("[" * 100_000, '{"a":' * 100_000, "1" * 10_000, "\ufeff" + text, text + text, "null")
    )
    path.write_text(text)
    return f"{path.name}: {text[:50]}"


def other_toml(run: Path, rng: random.Random) -> str:
    """Another value in config.toml, or another line."""
    path = run / "config.toml"
    lines = path.read_text().splitlines()
    at = rng.randrange(len(lines))
    name = re.split(r"\s*=", lines[at])[0]
    value = rng.choice(VALUES)
    text = json.dumps(value) if not isinstance(value, float) else repr(value)
    how = rng.choice(("value", "value", "value", "drop", "add", "section"))
    if how == "value":
        lines[at] = f"{name} = {text}"
    elif how == "drop":
        del lines[at]
    else:
        lines.insert(at, f"[{name or 'a'}]" if how == "section" else f"added = {text}")
    path.write_text("\n".join(lines))
    return f"config.toml: {lines[min(at, len(lines) - 1)]} ({how})"


def other_tensors(run: Path, rng: random.Random) -> str:
    """Tensors of other shapes, types and values, missing and additional ones."""
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file

    path = rng.choice(sorted(run.rglob("*.safetensors")))
    with safe_open(str(path), framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about = file.metadata()
    name = rng.choice(sorted(tensors))
    tensor = tensors[name]
    how = rng.choice(("type", "shape", "value", "drop", "add", "about", "empty"))
    if how == "type":
        kinds = (torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool)
        tensors[name] = tensor.to(rng.choice(kinds))
    elif how == "shape":
        shapes = (tensor[None], tensor.reshape(-1), tensor.reshape(-1)[:0], tensor.reshape(-1)[:1])
        tensors[name] = rng.choice(shapes).contiguous()
    elif how == "value" and tensor.numel():
        value = rng.choice((float("nan"), float("inf"), -1.0, 1e30, 127.0))
        tensor = tensor.clone()
        if not tensor.dtype.is_floating_point:
            value = 1.0
        tensor.reshape(-1)[rng.randrange(tensor.numel())] = value
        tensors[name] = tensor
    elif how == "drop":
        del tensors[name]
    elif how == "add":
        tensors["added"] = tensor.clone()
    elif how == "empty":
        tensors = {}
    else:
        about = rng.choice((None, {}, {"graphlatent": "[]"}, {"graphlatent": '{"a": 1}'}))
    save_file(tensors, path, metadata=about)
    return f"{path.name}, {name}: {how}"


def other_header(run: Path, rng: random.Random) -> str:
    """A header of a safetensors file that lies."""
    path = rng.choice(sorted(run.rglob("*.safetensors")))
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    how = rng.choice(("length", "shape", "offsets", "type", "json", "text"))
    name = rng.choice([each for each in header if each != "__metadata__"])
    if how == "length":
        wrong = rng.choice((0, 1, 2**31, 2**63 - 1, length + 1))
        path.write_bytes(struct.pack("<Q", wrong) + data[8:])
        return f"{path.name}: header length {wrong}"
    if how == "shape":
        header[name]["shape"] = rng.choice(([2**62], [2**32, 2**32], [-1], ["a"], None))
    elif how == "offsets":
        header[name]["data_offsets"] = rng.choice(([0, 2**62], [5, 0], [0], [0, 0], "a"))
    elif how == "type":
        header[name]["dtype"] = rng.choice(("F8_E4M3", "BF16", "X", 1, "I8"))
    elif how == "text" and "__metadata__" in header:
        about = header["__metadata__"]
        key = rng.choice(sorted(about))
        about[key] = _other_text(about[key], rng)
    else:
        header = rng.choice(([], {}, {"a": 1}, None))
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
    return f"{path.name}: {how} {text[:1500]!r}"


def _other_text(text: str, rng: random.Random) -> str:
    """JSON inside a text, with another value somewhere."""
    try:
        value = {"": json.loads(text)}
    except ValueError:
        return "damaged"
    holder, key = rng.choice(_places(value))
    holder[key] = rng.choice(VALUES)
    return json.dumps(value[""])


CHANGES: tuple[Callable[[Path, random.Random], str], ...] = (
    *(other_json, other_json, other_toml, other_toml, other_tensors, other_tensors),
    *(other_header, broken_json),
)
