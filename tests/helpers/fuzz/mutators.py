"""Valid bytes made invalid: blindly, by token, and with the structure of each format in mind.

A mutator takes a random.Random and the bytes of a file, and returns other bytes. `mutate` picks those that suit the
file's name. Forgeries are mutators that put a checksum right again: what they change no digest can show.
"""

import functools
import gzip
import io
import json
import math
import re
import struct
import zipfile
import zlib

import numpy as np

from fedhalt import files
from fedhalt.records import lines

NUMBERS = [
    *"""0 -0 1 -1 2 3 0.5 -0.0 1e-320 1e300 1e999 -1e999 255 65536 2147483648 4294967296 9007199254740993 1e15 inf nan
    9223372036854775807 9223372036854775808 -9223372036854775809 18446744073709551616 -inf 0x10 1_000 ١٢ 007 1. .5 1e
    1e99999999""".split(),
    "9" * 400, "9" * 5000, "-" + "1" * 5000, "0." + "0" * 400 + "1", "0x" + "F" * 5000,
]  # fmt: skip
WORDS = ["null", "true", "false", "NaN", "Infinity", "-Infinity", '"NaN"', '"-Infinity"', '""', '"x"', "[]", "{}",
         "[[]]", "[1]", '[null, "a"]', '{"a": 1}', '{"type": "GrowthRate"}', '"\\ud800"', '"\\u0000"', '"\\u001b[31m"',
         '"\u202e"', '"\ud83d\\ude00"', "'", '"', ",", ":", "\\", "\n", "\r", "\t", "\x00", "\x1b[2J", "#", "=",
         "[[a]]", "1979-05-27T07:32:00Z", "07:32:00", '"""', "'''"]  # fmt: skip
DEPTHS = (2, 50, 99, 101, 500, 2000, 20_000)
TOKEN = re.compile(rb'"(?:[^"\\]|\\.){0,200}"|-?\d[\d.eE+-]*|[A-Za-z_][\w-]*|[\[\]{}:,=\n]')
DTYPES = "<f4 >f4 <f8 >f8 <f2 >i8 <i8 |i1 |u1 |b1 <c8 <U3 |S2 <M8[s] <m8[ns] |V4 |O <f16".split()
SHAPES = [(), (0,), (1,), (1, 1), (2, 3), (3, 2), (6,), (10**4,), (0, 5), (2, 1, 1, 1), (1,) * 33]
SIZES = [0, 1, 7, 8, 255, 2**16, 2**31 - 1, 2**31, 2**32, 2**40, 2**63 - 1, 2**63, 2**64 - 1]


def flip(draw, data):
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 8))):
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(draw, data):
    return data[: draw.randrange(len(data))]


def drop(draw, data):
    begin, end = _span(draw, data)
    return data[:begin] + data[end:]


def insert(draw, data):
    place = draw.randrange(len(data) + 1)
    return data[:place] + draw.randbytes(draw.choice((1, 2, 8, 100))) + data[place:]


def repeat(draw, data):
    begin, end = _span(draw, data)
    return data[:end] + data[begin:end] * draw.choice((1, 1, 2, 50)) + data[end:]


def swap(draw, data):
    (a, b), (c, d) = sorted((_span(draw, data), _span(draw, data)))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:] if b <= c else data[b:] + data[:b]


def overwrite(draw, data):
    begin, end = _span(draw, data)
    return data[:begin] + draw.choice((b"\0", b"\xff", b" ", b"[", b"\n")) * (end - begin) + data[end:]


def extend(draw, data):
    return data + draw.choice((b"\0", b"\n", b"{", b"\xff\xfe", data, b"\0" * 5000))


def _span(draw, data):
    begin = draw.randrange(len(data))
    return begin, min(len(data), begin + draw.choice((1, 2, 4, 16, 64, 256)))


BLIND = (flip, flip, cut, drop, insert, repeat, swap, overwrite, extend)


def word(draw):
    """A text in the place of a token."""
    kind = draw.randrange(10)
    if kind < 5:
        return draw.choice(NUMBERS).encode()
    if kind < 9:
        return draw.choice(WORDS).encode("utf-8", "surrogatepass")
    depth, (begin, end) = draw.choice(DEPTHS), draw.choice((("[", "]"), ('{"a":', "}"), ("{a=", "}"), ('["', '"]')))
    return (begin * depth + draw.choice(("1", "", '"x"')) + end * draw.choice((depth, depth, 0))).encode()


def token(draw, data):
    """A number, a text or a sign replaced by another or by something strange, or given twice, or left out."""
    found = list(TOKEN.finditer(data))
    if not found:
        return insert(draw, data)
    one = draw.choice(found)
    new = draw.choice((word(draw), word(draw), word(draw), draw.choice(found)[0], one[0] * 2, b""))
    return data[: one.start()] + new + data[one.end() :]


def rows(draw, data):
    """Lines in another order, twice, or left out; other line ends; a mark at the beginning."""
    parts, what = data.split(b"\n"), draw.randrange(6)
    a, b = draw.randrange(len(parts)), draw.randrange(len(parts))
    if what == 0:
        parts[a], parts[b] = parts[b], parts[a]
    elif what == 1:
        parts.insert(a, parts[b])
    elif what == 2:
        del parts[a]
    elif what == 3:
        parts[a] = parts[a][: draw.randrange(len(parts[a]) + 1)]
    elif what == 4:
        return draw.choice((b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r\n"), data.replace(b"\n", b"\r")))
    else:
        return data.decode("utf-8", "replace").encode(draw.choice(("utf-16", "utf-32", "latin-1")), "replace")
    return b"\n".join(parts)


def header(draw, data):
    """The JSON header of a safetensors file, its length put right or not."""
    if draw.random() < 0.2 or len(data) < 10:
        return struct.pack("<Q", draw.choice(SIZES)) + data[8:]
    size = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + size]
    kinds = b"F64 F32 F16 BF16 I64 U8 BOOL F8_E4M3 F8_E5M2 U64 C64 F4 X".split()
    found = re.findall(rb'"dtype":"([A-Z0-9_]+)"', text)
    if found and draw.random() < 0.3:
        text = text.replace(b'"' + draw.choice(found) + b'"', b'"' + draw.choice(kinds) + b'"', 1)
    else:
        text = token(draw, text)
    return struct.pack("<Q", len(text) if draw.random() < 0.9 else draw.choice(SIZES)) + text + data[8 + size :]


def shape(draw, data):
    """The tensors of a safetensors file with the same bytes in another form, in a header that is valid."""
    size = int.from_bytes(data[:8], "little")
    try:
        entries = json.loads(data[8 : 8 + size])
        names = [name for name in entries if name != "__metadata__"]
        name = draw.choice(names)
        begin, end = entries[name]["data_offsets"]
        count = end - begin
    except (ValueError, TypeError, LookupError, RecursionError):
        return header(draw, data)
    what = draw.randrange(4)
    if what == 0:
        entries[name] |= {"dtype": "U8", "shape": draw.choice(([count], [1, count], [count, 1]))}
    elif what == 1 and count % 2 == 0:
        entries[name] |= {"dtype": draw.choice(("BF16", "F16", "I16")), "shape": [count // 2]}
    elif what == 2:
        entries[draw.choice(("", "x", "\ud800", "a\nb", "\x1b[31m", "x" * 5000))] = entries.pop(name)
    else:
        entries["__metadata__"] = draw.choice(({"a": 1}, {"a": "\n"}, [], None, {"\x1b": "x"}))
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + size :]


def zipped(members, compression=zipfile.ZIP_STORED):
    """The same bytes for the same members, at any time of the day."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return made.getvalue()


def member(draw, data):
    """One member of a zip archive mutated, left out or renamed, in an archive whose checksums are right."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # one that was mutated before makes zipfile raise almost anything
        return flip(draw, data)
    if not members:
        return flip(draw, data)
    name = draw.choice(list(members))
    what = draw.randrange(10)
    if what == 0:
        del members[name]
    elif what == 1:
        members[draw.choice(("x.npy", "../x", "a\nb.npy", "\x1b[31m.npy", "é" * 300, name + "x"))] = members.pop(name)
    elif what == 2:
        members[name] = bytes(2**20)
    elif what < 7 and name.endswith(".npy"):
        members[name] = draw.choice((array, array, array, token_in_head))(draw, members[name])
    elif members[name]:
        members[name] = draw.choice((*BLIND, token))(draw, members[name])
    return zipped(members, draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))


def array(draw, data):
    """An .npy file of another type, shape or order, or whose header promises more than there is."""
    values = np.full(draw.choice(SHAPES), draw.choice((0, 1, 3, -1, 1e30, math.nan, math.inf)), np.float64)
    made, kind = io.BytesIO(), draw.choice(DTYPES)
    with np.errstate(all="ignore"):
        try:
            changed = values.astype(kind) if kind != "|O" else np.array([{"a": 1}] * 2, object)
        except (TypeError, ValueError, OverflowError):
            changed = values
    np.save(made, np.asfortranarray(changed) if draw.random() < 0.2 else changed, allow_pickle=True)
    if draw.random() < 0.3:
        larger = draw.choice(SIZES)
        return re.sub(rb"'shape': \([^)]*\), \}", lambda _: b"'shape': (%d,), }" % larger, made.getvalue())
    return made.getvalue()


def token_in_head(draw, data):
    size = 10 + int.from_bytes(data[8:10], "little")
    text = token(draw, data[10:size])
    return data[:8] + struct.pack("<H", len(text) & 0xFFFF) + text + data[size:]


@functools.cache
def bomb():
    """Half a megabyte that unfolds to half a gigabyte."""
    packer = zlib.compressobj(wbits=31)
    return b"".join([*(packer.compress(bytes(2**20)) for _ in range(2**9)), packer.flush()])


def unfolded(draw, data):
    """What a gzip file holds, mutated as a safetensors file; rarely one that unfolds to far more than it is."""
    if len(data) > 2**17:  # such a one
        return flip(draw, data)
    try:
        inside = gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return flip(draw, data)
    what = draw.randrange(200)
    if what == 0:
        return bomb()
    if what < 20:
        return data + draw.choice((data, b"\0\0", b"x", gzip.compress(b"", mtime=0)))
    change = draw.choice((header, header, shape, shape, token, *BLIND))
    return gzip.compress(change(draw, inside) if inside else b"x", 1, mtime=0)


TEXT = (token, token, token, token, rows)
BY_SUFFIX = {
    ".json": TEXT, ".jsonl": TEXT, ".csv": TEXT, ".toml": TEXT, ".http": TEXT, ".safetensors": (header, header, shape),
    ".npz": (member, member), ".pt": (member, member), ".npy": (array, token_in_head), ".gz": (unfolded,) * 4,
}  # fmt: skip


def mutate(draw, name, data):
    """One change that suits the kind of file."""
    if not data:
        return word(draw)
    suited = BY_SUFFIX.get(name[name.rfind(".") :], ())
    return draw.choice(suited if suited and draw.random() < 0.6 else BLIND)(draw, data)


def forge_lines(draw, data):
    """A trajectory with a token changed in one of its lines, and every checksum right."""
    parts = data.split(b"\n")
    index = draw.randrange(max(1, len(parts) - 1))
    content = token(draw, parts[index][: -lines.BEHIND] + b"}").removesuffix(b"}").replace(b"\n", b" ")
    parts[index] = b'%s%s%s"}' % (content, lines.CHECK, lines._checksum(content))
    return b"\n".join(parts)


def forge_seal(draw, data):
    """A sealed file whose content has a token changed, and the digest of that."""
    try:
        sealed = json.loads(data)
        text = token(draw, sealed["saved"].encode()).decode("utf-8", "replace")
    except (ValueError, TypeError, KeyError, AttributeError):
        return token(draw, data)
    return json.dumps({**sealed, "saved": text, "digest": files.digest(text.encode())}).encode()
