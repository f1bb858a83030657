"""Files of the test vectors that are no document."""

import json

from receipt_edits import changed, dump, swapped, with_field, without, written

RAW_VALUE = '"$serde_json::private::RawValue"'
ESCAPED_DOLLAR = "\\u0024"


def unreadable(valid):
    """Texts that are no document at all."""
    text = dump(valid["plain"])
    yield "cut-off", text[: len(text) // 2]
    yield "empty", ""
    yield from ambiguous(valid)
    yield from broken(valid)
    yield "raw-values-in-each-other", with_field(valid["plain"], f'"later": {nested_raw_values()}')
    yield "index-6.0", written(valid["plain"], "index", "6.0")
    for power in (53, 64):
        yield f"index-field-2-to-{power}", written(valid["plain"], "index", str(1 << power))
    yield "key-number", dump(changed(valid["plain"], "keys", [1]))
    yield "other-object", dump({"object": "thesis"})
    yield "file-without-date", dump(without(valid["archive-file"], "date"))
    yield "file-without-entry", dump(without(valid["archive-file"], "entry"))
    yield "missing-field", dump({name: value for name, value in valid["plain"].items() if name != "salt"})


def nested_raw_values():
    """A value with raw values in each other. A parser that reads them needs 126 levels more for each."""
    value = "1"
    for _ in range(60):
        text = value.replace("\\", "\\u005c").replace('"', "\\u0022")
        value = f'{"[" * 125}{{{RAW_VALUE}: "{text}"}}{"]" * 125}'
    return value


def ambiguous(valid):
    """Texts with two fields of one name in one object. Readers that keep the last of them see a valid receipt."""
    text = dump(valid["plain"])
    forged_text = '"text": "I was first."'
    yield "two-texts", swapped(text, '"text":', f'{forged_text},\n  "text":')
    # Readers that keep the first one see a valid receipt.
    recorded = json.dumps({"text": valid["plain"]["evidence"]["text"]})[1:-1]
    yield "two-texts-first", swapped(text, recorded, f"{recorded},\n  {forged_text}")
    escaped = forged_text.replace("text", "\\u0074ext")
    yield "two-texts-escaped", swapped(text, '"text":', f'{escaped},\n  "text":')
    yield "two-names", swapped(text, '"handle":', '"handle": "@bob",\n   "handle":')
    yield "two-equal-fields", swapped(text, '"livemode":', '"livemode": true,\n "livemode":')
    yield "two-unknown-fields", swapped(text, "{", '{\n "later": [[{"a": {}, "b": 1, "a": {}}]],')
    yield "two-control-names", with_field(valid["plain"], '"later": {"\\u0000": 1, "\\u0000": 2}')
    yield "two-byte-order-marks", with_field(valid["plain"], '"\ufeff": 1, "\\ufeff": 2')
    yield "two-prototypes", with_field(valid["plain"], '"later": {"__proto__": 1, "__proto__": {}}')
    yield "two-verdicts", swapped(dump(valid["statement"]), '"verified":', '"verified": true,\n  "verified":')


def broken(valid):
    """Texts that some readers of JSON take, and others refuse. Without the fault each is a valid document."""
    # A reader that replaces half of a surrogate pair sees the recorded text.
    recorded = dump(valid["replacement-character"])
    for name, escaped in {
        "surrogate-high": "\\ud800",
        "surrogate-low": "\\udfff",
        "surrogate-upper-case": "\\uD83D",
    }.items():
        yield name, swapped(recorded, "\ufffd", escaped)
    for name, field in {
        "surrogates-in-wrong-order": '"later": "\\ude80\\ud83d"',
        "surrogate-twice": '"later": "\\ud83d\\ud83d\\ude80"',
        "surrogate-and-letter": '"later": ["\\ud83dA\\ude80"]',
        "surrogate-and-escape": '"later": {"a": "\\ud83d\\n"}',
        "surrogate-after-backslash": '"later": "\\\\\\ud83d"',
        "surrogate-before-backslash": '"later": "\\ud83d\\\\ude80"',
        "surrogate-in-name": '"\\ud83d": 1',
        "not-a-number": '"later": NaN',
        "number-too-large": '"later": 1e999',
        "leading-zero": '"later": 07',
        "control-character": '"later": "\u0001"',
        "control-character-in-name": '"a\tb": 1',
        "nul": '"later": "\0"',
        "newline-in-text": '"later": "a\nb"',
        "escaped-quote": '"later": "\\\'"',
        "hexadecimal-escape": '"later": "\\x41"',
        "short-escape": '"later": "\\u41"',
        "plus-one": '"later": +1',
        "point-five": '"later": .5',
        "comment": '"later": /* 1 */ 1',
        "comma-in-list": '"later": [1,]',
        "apostrophes": "'later': 1",
        "no-break-space": '"later":\u00a01',
        "line-separator": '"later":\u20281',
        "form-feed": '"later":\f1',
        "byte-order-mark-inside": '"later":\ufeff1',
        # A parser of Rust may read the text in such a field as JSON.
        "raw-value": f'"later": {{{RAW_VALUE}: "1"}}',
        "raw-value-escaped": f'"later": [{{"a": 1, {RAW_VALUE.replace("$", ESCAPED_DOLLAR)}: 1}}]',
        "too-deep": f'"later": {"[" * 127}{"]" * 127}',
        "entry-null": '"entry": null',
    }.items():
        yield name, with_field(valid["plain"], field)
    yield "surrogate-in-statement", with_field(valid["statement"], '"later": "\\ud83d"')
    recorded = valid["plain"]["evidence"]
    hidden = json.dumps(json.dumps(recorded))
    yield "raw-value-evidence", swapped(dump(valid["plain"] | {"evidence": 0}), ": 0", f": {{{RAW_VALUE}: {hidden}}}")
    yield "byte-order-mark", "\ufeff" + dump(valid["plain"])
    yield "trailing-text", dump(valid["plain"]) + "{}"
    yield "trailing-nul", dump(valid["plain"]) + "\0"
    yield "trailing-byte-order-mark", dump(valid["plain"]) + "\ufeff"
    yield "object-in-list", swapped(dump(valid["plain"]), '"receipt"', '["receipt"]')
    yield "upper-case-name", swapped(dump(valid["plain"]), '"livemode"', '"Livemode"')
