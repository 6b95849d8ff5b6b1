"""The content of text files, also packed ones and standard input, as UTF-8 within the memory limit.

A byte order mark says that a file is UTF-8, UTF-16 or UTF-32. Without one it must be UTF-8, unless
its encoding is given: any bytes are valid in encodings such as latin-1, so they cannot be told.
"""

from __future__ import annotations

import codecs
import gzip
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from graphlatent.data.memory_limit import exceeded, memory_limit, readable, require_memory
from graphlatent.errors import InputError
from graphlatent.io.regular_files import open_regular, refusing_damage, regular_file

STANDARD_INPUT = "-"
# Memory for each byte of text: the text itself and the numbers in it, such as '7,', of 8 bytes.
BYTES_PER_BYTE = 3
_CHUNK = 2**20
# UTF-32 first: its mark starts with that of UTF-16.
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8",
}
_IN_ZIP = (".csv", ".tsv", ".txt")
HOW_TO_DECODE = (
    "Give the encoding it was written in, such as encoding='latin-1' (on the command line"
    " --encoding latin-1) or cp1252, or save it as UTF-8."
)


@dataclass(frozen=True)
class TextContent:
    """The content of a text file.

    Args:
        data: as UTF-8, without a byte order mark.
        suffix: '.csv', '.tsv' or '.txt', of the file or of the one that was packed in it.
    """

    data: bytes
    suffix: str


def text_content(path: Path, name: str, *, encoding: str | None = None) -> TextContent:
    """What is in a file of text: plain, gzipped (.gz), the only table in a .zip, or '-'.

    Args:
        path: a regular file, or '-' for standard input.
        name: what to call the table in messages.
        encoding: of the text; None for UTF-8, or what a byte order mark says.

    Raises:
        InputError: where it cannot be read or decoded, or needs more memory than it may take.
    """
    suffix, where = _suffix(path), where_of(path, name)
    if str(path) == STANDARD_INPUT:
        data = _within_limit(_standard_input(where), where)
    elif path.suffix.lower() == ".zip":
        data, suffix = _unzipped(path, where)
    elif path.suffix.lower() == ".gz":
        with refusing_damage(f"{where} cannot be read as gzipped text"), gzip.open(path) as file:
            data = _within_limit(file, f"{where}, unpacked")
    else:
        size = regular_file(path)
        require_memory(BYTES_PER_BYTE * size, what=f"{where}, a file of {readable(size)},")
        with refusing_damage(f"{where} cannot be read as text"), open_regular(path) as file:
            data = file.read()
    return TextContent(as_utf8(data, where, encoding), suffix)


def where_of(path: Path, name: str) -> str:
    """The table and its file, for messages; the name of standard input says it already."""
    return name if str(path) == STANDARD_INPUT else f"{name}: {path}"


def _suffix(path: Path) -> str:
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return plain.suffix.lower() or ".txt"


def _standard_input(where: str) -> IO[bytes]:
    # None where a process was started without it; notebooks replace it by one without bytes.
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or sys.stdin.isatty():
        raise InputError(
            f"{where} has no data. Send a table into the command, as in 'graphlatent train - <"
            " edges.csv', or give the path of a file."
        )
    found: IO[bytes] = stream
    return found


def _within_limit(file: IO[bytes] | gzip.GzipFile, what: str) -> bytes:
    """The contents of a stream, as far as they keep within the limit."""
    content, limit = bytearray(), memory_limit()
    while chunk := file.read(_CHUNK):
        content += chunk
        if BYTES_PER_BYTE * len(content) > limit:
            what = f"{what} {readable(len(content))} or more,"
            raise exceeded(BYTES_PER_BYTE * len(content), limit=limit, what=what)
    return bytes(content)


def _unzipped(path: Path, where: str) -> tuple[bytes, str]:
    """The only table in a .zip file, and the end of its name."""
    with refusing_damage(f"{where} cannot be read as a .zip file"), zipfile.ZipFile(path) as packed:
        # macOS adds files of its own, whose names start so.
        tables = [
            each
            for each in packed.infolist()
            if each.filename.lower().endswith(_IN_ZIP) and not each.filename.startswith("__MACOSX/")
        ]
        if len(tables) != 1:
            names = ", ".join(each.filename for each in tables[:5])
            found = f"{len(tables)} ({names})" if tables else "none"
            raise InputError(
                f"{where} must hold one table ({', '.join(_IN_ZIP)}) and holds {found}. Unpack it"
                " and give the paths of the files."
            )
        if tables[0].flag_bits & 1:
            raise InputError(f"{where} is encrypted. Unpack it and give the path of the file.")
        with packed.open(tables[0]) as file:
            data = _within_limit(file, f"{where}, unpacked")
    return data, Path(tables[0].filename).suffix.lower()


def as_utf8(data: bytes, where: str, encoding: str | None) -> bytes:
    """A text as UTF-8 without a byte order mark.

    Args:
        data: the text in its encoding.
        where: the file, for messages.
        encoding: as for `text_content`.

    Raises:
        InputError: where it is not in that encoding, or needs more memory than it may take.
    """
    mark = next((each for each in MARKS if data.startswith(each)), b"")
    marked = MARKS.get(mark)
    if marked and encoding and not codecs.lookup(encoding).name.startswith(marked):
        raise InputError(
            f"{where} starts with the byte order mark of {marked}, so that it is not"
            f" {encoding}. Leave out the encoding."
        )
    codec = marked or codecs.lookup(encoding or "utf-8").name
    if codec == "utf-8":
        _decode(data, where, codec, is_given=encoding is not None)
        return data[len(mark) :]
    text = _decode(data, where, codec, is_given=encoding is not None, keep=True)
    return bytes(text)


def _decode(
    data: bytes, where: str, codec: str, *, is_given: bool, keep: bool = False
) -> bytearray:
    """The text as UTF-8, if it is to be kept, after all of it was decoded."""
    decoder, limit = codecs.getincrementaldecoder(codec)(), memory_limit()
    kept = bytearray()
    # At least once, so that an end in the middle of a character is found.
    for start in range(0, len(data) + 1, _CHUNK):
        chunk = data[start : start + _CHUNK]
        try:
            text = decoder.decode(chunk, final=start + _CHUNK > len(data))
        except UnicodeDecodeError as error:
            raise _not_in(codec, data, where, start + error.start, is_given=is_given) from error
        if keep:
            kept += text.encode("utf-8", "backslashreplace")
            if BYTES_PER_BYTE * len(kept) > limit:
                what = f"{where}, decoded {readable(len(kept))} or more,"
                raise exceeded(BYTES_PER_BYTE * len(kept), limit=limit, what=what)
    return kept


def _not_in(codec: str, data: bytes, where: str, place: int, *, is_given: bool) -> InputError:
    line = data.count(b"\n", 0, place) + 1
    way_out = "Give the one it was written in." if is_given else HOW_TO_DECODE
    return InputError(f"{where} is not {codec.upper()} text (line {line}). {way_out}")
