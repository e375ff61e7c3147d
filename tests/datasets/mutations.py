"""Ways in which files change on their way from one person to another.

Each takes the content and a random generator. `KEEPS` leaves every number as it was; `HARMS` does not.
"""

import csv
import gzip
import io
from collections.abc import Callable

import numpy as np

Mutation = Callable[[bytes, np.random.Generator], bytes]
SENTINELS = [
    "",
    "nan",
    "NaN",
    "inf",
    "-1",
    "0",
    "-999999",
    "1e999",
    "1" * 400,
    "1,5",
    "n/a",
    "0x10",
    "None",
    "'; DROP",
    "½",
]


def _rows(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode())))


def _text(rows: list[list[str]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def bom(data, random):
    return b"\xef\xbb\xbf" + data


def windows_line_ends(data, random):
    return data.replace(b"\n", b"\r\n")


def mixed_line_ends(data, random):
    return b"".join(line + random.choice([b"\n", b"\r\n"]) for line in data.split(b"\n")[:-1])


def packed(data, random):
    return gzip.compress(data)


def utf16(data, random):
    return data.decode().encode("utf-16")


def blank_lines(data, random):
    return data + b"\n\n"


def extra_column(data, random):
    rows = _rows(data)
    at = int(random.integers(len(rows[0]) + 1))
    return _text([[*row[:at], "extra" if i == 0 else "7", *row[at:]] for i, row in enumerate(rows)])


def other_order(data, random):
    rows = _rows(data)
    order = random.permutation(len(rows[0]))
    return _text([[row[i] for i in order] for row in rows])


def repeated_row(data, random):
    rows = _rows(data)
    return _text([*rows, rows[int(random.integers(1, len(rows)))]])


def semicolons(data, random):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", delimiter=";").writerows(_rows(data))
    return out.getvalue().encode()


def cut(data, random):
    return data[: int(random.integers(len(data)))]


def cut_packed(data, random):
    whole = gzip.compress(data)
    return whole[: int(random.integers(len(whole)))]


def flipped_bit(data, random):
    changed = bytearray(data)
    changed[int(random.integers(len(changed)))] ^= 1 << int(random.integers(8))
    return bytes(changed)


def junk_inside(data, random):
    at = int(random.integers(len(data)))
    return data[:at] + random.bytes(int(random.integers(1, 40))) + data[at:]


def bytes_lost(data, random):
    at = int(random.integers(len(data)))
    return data[:at] + data[at + int(random.integers(1, 60)) :]


def nothing_but_junk(data, random):
    return random.bytes(int(random.integers(0, 200)))


def lost_column(data, random):
    rows = _rows(data)
    at = int(random.integers(len(rows[0])))
    return _text([row[:at] + row[at + 1 :] for row in rows])


def odd_cell(data, random):
    rows = _rows(data)
    row = rows[int(random.integers(1, len(rows)))]
    row[int(random.integers(len(row)))] = str(random.choice(SENTINELS))
    return _text(rows)


def lost_cell(data, random):
    rows = _rows(data)
    row = rows[int(random.integers(1, len(rows)))]
    del row[int(random.integers(len(row)))]
    return _text(rows)


def header_again(data, random):
    rows = _rows(data)
    return _text([*rows, rows[0]])


def header_lost(data, random):
    return data.split(b"\n", 1)[1]


def odd_number(data, random):
    text = data.decode()
    numbers = [i for i, letter in enumerate(text) if letter.isdigit()]
    at = numbers[int(random.integers(len(numbers)))]
    return (text[:at] + str(random.choice(["-", "e", "NaN", "null", '"', "9" * 400, ".."])) + text[at + 1 :]).encode()


KEEPS: tuple[Mutation, ...] = (bom, windows_line_ends, mixed_line_ends, packed, utf16, blank_lines)
KEEPS_TABLE: tuple[Mutation, ...] = (extra_column, other_order, repeated_row, semicolons)
HARMS: tuple[Mutation, ...] = (cut, cut_packed, flipped_bit, junk_inside, bytes_lost, nothing_but_junk, odd_number)
HARMS_TABLE: tuple[Mutation, ...] = (lost_column, odd_cell, lost_cell, header_again, header_lost)
