"""Random changes of valid receipts. Each is a few edits of the file, and none leaves a valid receipt.

The steps are those of `receipts/tests/mutations.rs`, which makes more of them."""

import json

from receipt_formats import Invalid, encode, parse

COUNT = 1_000
FILES = ("plain", "emoji", "archive-file", "statement")
SEED = 0x2545_F491_4F6C_DD1D
MASK = (1 << 64) - 1


class Random:
    """A small generator of random numbers (xorshift)."""

    def __init__(self, seed):
        self.state = seed

    def below(self, end):
        self.state ^= self.state << 13 & MASK
        self.state ^= self.state >> 7
        self.state ^= self.state << 17 & MASK
        return self.state % end

    def byte(self):
        return bytes([self.below(256)])


def edits(file, random):
    """Changes a bit or a byte, or removes, repeats or moves a piece. An edit is a place, the number of bytes that are
    removed there, and the bytes that are inserted."""
    place = random.below(len(file))
    end = min(place + 1 + random.below(80), len(file))
    piece = file[place:end]
    kind = random.below(6)
    if kind == 0:
        return [(place, 1, bytes([file[place] ^ 1 << random.below(8)]))]
    if kind == 1:
        return [(place, 1, random.byte())]
    if kind == 2:
        return [(place, 0, random.byte())]
    if kind == 3:
        return [(place, len(piece), b"")]
    if kind == 4:
        return [(place, 0, piece)]
    return [(place, len(piece), b""), (random.below(len(file) - len(piece)), 0, piece)]


def edited(file, changes):
    for place, removed, inserted in changes:
        file = file[:place] + inserted + file[place + removed :]
    return file


def is_same(original, content):
    """Whether a file still has the same document: another space between two values, or one more field, changes
    nothing."""
    try:
        found = parse(content.decode())
    except (ValueError, Invalid):
        return False
    if not isinstance(found, dict) or not original.keys() <= found.keys():
        return False
    return json.dumps({name: found[name] for name in original}) == json.dumps(original)


def mutations(texts):
    """The text of the file that lists the changes. `texts` are the valid files by their names."""
    random, rows = Random(SEED), []
    while len(rows) < COUNT:
        name = FILES[random.below(len(FILES))]
        file = texts[name].encode()
        changes = edits(file, random)
        if not is_same(parse(texts[name]), edited(file, changes)):
            listed = [[place, removed, encode(inserted)] for place, removed, inserted in changes]
            rows.append(json.dumps({"file": f"valid/{name}.json", "edits": listed}))
    return "[\n" + ",\n".join(rows) + "\n]\n"
