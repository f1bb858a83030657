"""Changes of documents that `receipt_vectors.py` and `receipt_unreadable.py` make."""

import copy
import json
import re


def dump(value):
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def changed(document, *path_and_value):
    *path, last, value = path_and_value
    copied = copy.deepcopy(document)
    at = copied
    for name in path:
        at = at[name]
    at[last] = value
    return copied


def written(document, name, number):
    """The text of a document in which the number of one field has another form."""
    return re.sub(rf'("{name}": )-?[0-9]+', rf"\g<1>{number}", dump(document), count=1)


def swapped(text, one, other):
    assert one in text, one
    return text.replace(one, other, 1)


def without(document, *path):
    copied = copy.deepcopy(document)
    at = copied
    for name in path[:-1]:
        at = at[name]
    del at[path[-1]]
    return copied


def with_field(document, field):
    """The text of a document with one more field, which is given as JSON."""
    return swapped(dump(document), "{", "{\n " + field + ",")


def in_list(value):
    """The values of an object, and of the objects in it, in the order of their names."""
    return [in_list(value[name]) for name in sorted(value)] if isinstance(value, dict) else value
