"""Damage to bytes and to fields, as disks, editors, exports and attackers do it."""

from __future__ import annotations

import random
import re

# Values that readers stumble over: missing, not finite, out of range, of another type or encoding.
FIELDS = (
    *(
        "",
        " ",
        "nan",
        "NaN",
        "NA",
        "null",
        "None",
        "inf",
        "-inf",
        "1e309",
        "1e38",
        "1e39",
        "1e-320",
    ),
    *("-1", "-0", "0", "1.0", "1.5", "007", "0x10", "1_000", "+1", "1e3", "1,5", "True", "false"),
    *("9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    *("18446744073709551616", "99999999999", "4294967296", "2147483648", "1" * 400),
    *("é", "a\u0301", "\u202e", "\u0661", "\ufeff", "'", '"', '""', "a b", "a\tb", "a;b", "=1+1"),
    *("2024-01-01", "12:30", "{}", "[]", "../x", "%s", "{0}", "[bold]", "\x1b[31m", "x" * 5000),
)
_BYTES = (
    *(b"\x00", b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n", b"\r\n", b"\n\n", b"\t", b","),
    *(b";", b'"', b"'", b"\\", b"#", b"<", b">", b"&", b"</", b"<!--", b"<![CDATA[", b"\x1a"),
    *(b"<!DOCTYPE x>", b"&lt;", b"&#0;", b"&x;", b"\xc3", b"\xed\xa0\x80", b"-", b"1", b"e999"),
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_FIELD = re.compile(rb"[^,\t\n\r<>\"=]+")


def damaged(data: bytes, rng: random.Random, *, times: int | None = None) -> bytes:
    """The bytes after one to four random changes."""
    for _ in range(times or rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(_CHANGES)(data, rng)
    return data


def _flip(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _span(data: bytes, rng: random.Random) -> tuple[int, int]:
    begin = rng.randrange(len(data) + 1)
    return begin, min(len(data), begin + rng.choice((1, 2, 5, 20, 100)))


def _cut_short(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _delete(data: bytes, rng: random.Random) -> bytes:
    begin, end = _span(data, rng)
    return data[:begin] + data[end:]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    begin, end = _span(data, rng)
    return data[:end] + data[begin:end] * rng.choice((1, 1, 3, 1000)) + data[end:]


def _move(data: bytes, rng: random.Random) -> bytes:
    begin, end = _span(data, rng)
    rest = data[:begin] + data[end:]
    at = rng.randrange(len(rest) + 1)
    return rest[:at] + data[begin:end] + rest[at:]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_BYTES) + data[at:]


def _replace(data: bytes, rng: random.Random) -> bytes:
    begin, end = _span(data, rng)
    return data[:begin] + rng.choice(_BYTES) + data[end:]


def _other_field(data: bytes, rng: random.Random) -> bytes:
    found = list(rng.choice((_NUMBER, _FIELD)).finditer(data))
    if not found:
        return data
    place = rng.choice(found)
    return data[: place.start()] + rng.choice(FIELDS).encode() + data[place.end() :]


def _line(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    how = rng.choice(("drop", "double", "swap", "empty"))
    if how == "drop":
        del lines[at]
    elif how == "double":
        lines.insert(at, lines[at])
    elif how == "swap":
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines.insert(at, b"")
    return b"\n".join(lines)


# Changes of fields and lines are more often understood, so they come more often.
_CHANGES = (
    *(_flip, _cut_short, _delete, _repeat, _move, _insert, _replace),
    *(_other_field, _other_field, _other_field, _line),
)
