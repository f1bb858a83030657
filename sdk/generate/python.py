"""Writes the models, the codes and the methods of the Python SDK."""

from __future__ import annotations

import dataclasses
import json
import keyword
import re
import textwrap

import core

FOLDER = "python/src/trade_thesis/"
HEAD = f"# {core.NOTICE}\n"
WIDTH = 110
VALUES = ("NOT_GIVEN", "NotGiven", "OneOrMore", "given", "new_key", "path_part", "path_parts")


def files(api: core.Api) -> dict[str, str]:
    """The generated files."""
    return {
        FOLDER + "_models.py": models(api),
        FOLDER + "_operations.py": operations(api, is_async=False),
        FOLDER + "_async_operations.py": operations(api, is_async=True),
        FOLDER + "_error_classes.py": error_classes(api),
        FOLDER + "types.py": exports(api),
    }


def name_of(field: core.Field) -> str:
    """The name of a field in Python: `for` is a keyword."""
    name = core.snake(field.name)
    return f"{name}_" if keyword.iskeyword(name) else name


def docstring(text: str, indent: str) -> str:
    """A description as a docstring."""
    lines = core.paragraphs(text.replace("\\", "\\\\"), WIDTH - len(indent))
    if len(lines) == 1:
        return f'{indent}"""{lines[0]}"""\n'
    return textwrap.indent(f'"""{chr(10).join(lines)}\n"""', indent, lambda line: line.strip() != "") + "\n"


def annotation(kind: core.Type, is_input: bool = False) -> str:
    """The annotation of a type. What is given to a method may be more than what a response has."""
    match kind.kind:
        case "string" | "date":
            text = "str"
            if kind.values:
                text = f"Literal[{', '.join(json.dumps(value) for value in kind.values)}] | str"
            if kind.kind == "date" and is_input:
                text = "datetime.date | str"
        case "integer":
            text = "int"
        case "number":
            text = "float"
        case "boolean":
            text = "bool"
        case "time":
            text = "datetime.datetime | str" if is_input else "datetime.datetime"
        case "const":
            text = f"Literal[{kind.value!r}]".replace("'", '"')
        case "ref":
            text = kind.name
        case "list":
            assert kind.item is not None
            text = f"{'Sequence' if is_input else 'list'}[{annotation(kind.item, is_input)}]"
        case "map":
            assert kind.item is not None
            text = f"Mapping[str, {annotation(kind.item, is_input)}]"
        case _:
            text = "Mapping[str, Any]"
    return f"{text} | None" if kind.nullable else text


def reader(api: core.Api, kind: core.Type, value: str) -> str:
    """An expression that reads a value of a response."""
    text = value
    match kind.kind:
        case "time":
            text = f"read_time({value})"
        case "ref":
            schema = api.schemas[kind.name]
            if isinstance(schema, core.Object):
                text = f"{kind.name}.read({value})"
            elif isinstance(schema, core.Union):
                text = f"read_{core.snake(kind.name)}({value})"
        case "list":
            assert kind.item is not None
            item = reader(api, kind.item, "item")
            text = f"list({value})" if item == "item" else f"[{item} for item in {value}]"
    return f"None if {value} is None else {text}" if kind.nullable and text != value else text


def field_reader(api: core.Api, field: core.Field) -> str:
    """The argument that reads a field of an object."""
    value = f'raw["{field.name}"]'
    if field.required:
        return f"{name_of(field)}={reader(api, field.type, value)}"
    value = f'raw.get("{field.name}")'
    text = reader(api, dataclasses.replace(field.type, nullable=False), "value")
    if text == "value":
        return f"{name_of(field)}={value}"
    return f"{name_of(field)}=None if (value := {value}) is None else {text}"


def models(api: core.Api) -> str:
    """The file of all objects."""
    parts = [
        HEAD,
        '"""The types of requests and responses."""\n\n',
        "from __future__ import annotations\n\n",
        "import datetime\nfrom collections.abc import Callable, Mapping, Sequence\n",
        "from dataclasses import dataclass, field\nfrom typing import Any, Literal, TypeAlias\n\n",
        "from ._values import read_time\n\n",
    ]
    unions = []
    for schema in shown(api):
        if isinstance(schema, core.Enum):
            values = ", ".join(json.dumps(value) for value in schema.values)
            parts.append(f"\n{wrapped(f'{schema.name}: TypeAlias = Literal[', values, '] | str')}")
            parts.append(docstring(schema.about + " Newer services may send other values.", "") + "\n")
        elif isinstance(schema, core.Object):
            parts.append(model(api, schema))
        else:
            unions.append(schema)
    parts += [union(api, schema) for schema in unions]
    return "".join(parts)


def shown(api: core.Api) -> list[core.Schema]:
    """The schemas that become types. The fields of a body are arguments of its method instead."""
    bodies = {operation.body.name for operation in api.operations if operation.body}
    return [schema for name, schema in api.schemas.items() if name not in bodies]


def wrapped(head: str, items: str, tail: str) -> str:
    """A list in one line, or in a line for each item."""
    line = f"{head}{items}{tail}\n"
    if len(line) <= WIDTH:
        return line
    return f"{head}\n" + "".join(f"    {item},\n" for item in items.split(", ")) + f"{tail}\n"


def model(api: core.Api, schema: core.Object) -> str:
    """A class."""
    lines = [f"\n@dataclass(frozen=True, slots=True, kw_only=True)\nclass {schema.name}:\n"]
    lines.append(docstring(schema.about, "    ") + "\n")
    for field in schema.fields:
        kind = annotation(field.type, schema.is_input)
        if not field.required:
            kind = kind if field.type.nullable else f"{kind} | None"
            kind = f"{kind} = None"
        lines.append(f"    {name_of(field)}: {kind}\n{docstring(field.about, '    ')}")
    lines.append("    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)\n")
    lines.append(docstring("The object as the service sent it, with fields that this version does not know.", "    "))
    lines.append("\n    @classmethod\n")
    lines.append(f"    def read(cls, raw: Mapping[str, Any]) -> {schema.name}:\n")
    lines.append('        """Reads an object of a response."""\n        return cls(\n')
    lines += [f"            {field_reader(api, field)},\n" for field in schema.fields]
    lines.append("            raw=raw,\n        )\n\n")
    return "".join(lines)


def union(api: core.Api, schema: core.Union) -> str:
    """A union, and what it is when a newer service sends another variant."""
    unknown = f"Unknown{schema.name}"
    readers = f"_READERS_OF_{core.snake(schema.name).upper()}"
    members = " | ".join([*schema.variants.values(), unknown])
    alias = f"{schema.name}: TypeAlias = {members}\n"
    if len(alias) > WIDTH:
        lines = members.replace(" | ", "\n    | ")
        alias = f"{schema.name}: TypeAlias = (\n    {lines}\n)\n"
    lines = "".join(f'    "{tag}": {name}.read,\n' for tag, name in schema.variants.items())
    fields = [
        core.Field(schema.tag, core.Type("string"), True, "The type."),
        *(field for field in schema.shared if field.type.kind != "const"),
    ]
    declared = [f"    {name_of(one)}: {annotation(one.type)}\n{docstring(one.about, '    ')}" for one in fields]
    return UNION.format(
        unknown=unknown,
        declared="".join(declared),
        fields="".join(f"        {field_reader(api, field)},\n" for field in fields),
        tag=schema.tag,
        alias=alias,
        about=docstring(schema.about, ""),
        readers=readers,
        lines=lines,
        read=f"read_{core.snake(schema.name)}",
        name=schema.name,
    )


UNION = '''
@dataclass(frozen=True, slots=True, kw_only=True)
class {unknown}:
    """Of a type that this version does not know. Pass it over, or update."""

{declared}    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The object as the service sent it."""


{alias}{about}
{readers}: Mapping[str, Callable[[Mapping[str, Any]], {name}]] = {{
{lines}}}


def {read}(raw: Mapping[str, Any]) -> {name}:
    """Reads one of a response."""
    reader = {readers}.get(raw["{tag}"])
    if reader is not None:
        return reader(raw)
    return {unknown}(
{fields}        raw=raw,
    )
'''


def error_classes(api: core.Api) -> str:
    """The file of the errors' classes."""
    parts = [
        HEAD,
        '"""A class for each class of errors."""\n\n',
        "from __future__ import annotations\n\n",
        "from ._errors import ApiError\n",
    ]
    names = {}
    for kind in api.error_types:
        names[kind] = f"{core.pascal(kind)}Error".replace("PermissionError", "PermissionDeniedError")
        codes = [f"- `{error.code}`: {error.about}." for error in api.errors if error.type == kind]
        about = f"An error of the type `{kind}`.\n\nIts codes:\n\n" + "\n".join(codes)
        parts.append(f"\n\nclass {names[kind]}(ApiError):\n{docstring(about, '    ')}")
    parts.append("\n\nERROR_CLASSES: dict[str, type[ApiError]] = {\n")
    parts += [f'    "{kind}": {name},\n' for kind, name in names.items()]
    parts.append('}\n"""The classes by the type of an error."""\n')
    return "".join(parts)


def exports(api: core.Api) -> str:
    """The module from which users import types."""
    names = [schema.name for schema in shown(api)]
    names += [f"Unknown{schema.name}" for schema in shown(api) if isinstance(schema, core.Union)]
    lines = "".join(f"    {name},\n" for name in sorted(names))
    listed = "".join(f'    "{name}",\n' for name in sorted(names))
    about = '"""The types of requests and responses."""\n\n'
    return f"{HEAD}{about}from ._models import (\n{lines})\n\n__all__ = [\n{listed}]\n"


def operations(api: core.Api, is_async: bool) -> str:
    """The file of all methods."""
    class_name = "AsyncOperations" if is_async else "Operations"
    base = "AsyncBase" if is_async else "Base"
    methods = [method(api, operation, is_async) for operation in api.operations]
    methods += [iterator(api, operation, is_async) for operation in api.operations if operation.row_type]
    body = "".join(methods)
    identifiers = core.identifiers(re.sub(r'"""[^"]*"""', "", body))

    def used(*names: str) -> str:
        return ", ".join(name for name in names if name in identifiers)

    readers = [f"read_{core.snake(name)}" for name, one in api.schemas.items() if isinstance(one, core.Union)]
    imported = sorted(name for name in [*api.schemas, *readers] if name in identifiers)
    lines = "".join(f"    {name},\n" for name in imported)
    iterator_name = "AsyncIterator" if is_async else "Iterator"
    stream_name = "AsyncEventStream" if is_async else "EventStream"
    stream_module = "._async_stream" if is_async else "._stream"
    base_module = "._async_base" if is_async else "._base"
    imports = sorted(
        [
            f"from {base_module} import {base}\n",
            f"from {stream_module} import {stream_name}\n",
            f"from ._call import {used('Call', 'Options', 'json_reader', 'read_any', 'read_bytes', 'read_text')}\n",
            f"from ._models import (\n{lines})\n",
            f"from ._values import {used(*VALUES)}\n",
        ]
    )
    return (
        f'{HEAD}"""The operations of the API."""\n\nfrom __future__ import annotations\n\n'
        f"import datetime\nfrom collections.abc import {iterator_name}, Mapping, Sequence\n"
        f"from typing import {used('Any', 'Literal')}\n\n{''.join(imports)}"
        f'\n\nclass {class_name}({base}):\n    """A method for each operation of the API."""\n{body}'
    )


def arguments(operation: core.Operation, without: tuple[str, ...] = ()) -> list[str]:
    """The arguments of a method with their defaults."""
    given = [f"{name_of(field)}: {annotation(field.type, True)}" for field in operation.path_fields]
    named = []
    for field in (*(operation.body.fields if operation.body else ()), *operation.query_fields):
        if field.name in without:
            continue
        kind = annotation(field.type, True)
        if field in operation.query_fields and field.type.kind == "list":
            assert field.type.item is not None
            kind = f"OneOrMore[{annotation(field.type.item, True)}]"
        default = ""
        if not field.required:
            is_clearable = field.type.nullable
            kind = kind.removesuffix(" | None") + (" | NotGiven | None" if is_clearable else " | None")
            default = " = NOT_GIVEN" if is_clearable else " = None"
        named.append(f"{name_of(field)}: {kind}{default}")
    if operation.idempotent:
        named.append("idempotency_key: str | None = None")
    if operation.result != "stream":
        named.append("options: Options | None = None")
    # Those with defaults come last, which Python does not demand of names, but readers expect.
    named.sort(key=lambda argument: " = " in argument)
    return [*given, *(["*", *named] if named else [])]


def about_of(field: core.Field) -> str:
    """What an argument is. A method takes a sequence where the query has commas."""
    about = field.about.removeprefix("Comma-separated ")
    return about[0].upper() + about[1:]


def explained(operation: core.Operation, head: str, without: tuple[str, ...] = ()) -> str:
    """The docstring of a method: what it does, and its arguments."""
    fields = (*operation.path_fields, *(operation.body.fields if operation.body else ()), *operation.query_fields)
    lines = [f"    {name_of(field)}: {about_of(field)}." for field in fields if field.name not in without]
    if operation.idempotent:
        lines.append("    idempotency_key: Makes the call repeatable for 24 hours; a random one unless given.")
    if operation.result != "stream":
        lines.append("    options: Other timeout and number of retries for this call.")
    text = head.replace("\\", "\\\\").rstrip()
    told = "\n".join(core.paragraphs(text, WIDTH - 8))
    wrapped_lines = []
    for line in lines:
        line = line.replace("..", ".").replace("\\", "\\\\")
        wrapped_lines.append(textwrap.fill(line, WIDTH - 8, subsequent_indent="        ", break_on_hyphens=False))
    joined = "\n".join(wrapped_lines)
    about = f'"""{told}\n\nArgs:\n{joined}\n"""' if lines else f'"""{told}\n"""'
    return textwrap.indent(about, "        ", lambda line: line.strip() != "") + "\n"


def signature(name: str, parameters: list[str], result: str, is_async: bool) -> str:
    """The first lines of a method."""
    head = f"    {'async ' if is_async else ''}def {name}("
    line = f"{head}{', '.join(['self', *parameters])}) -> {result}:\n"
    if len(line) <= WIDTH:
        return f"\n{line}"
    listed = "".join(f"        {parameter},\n" for parameter in ["self", *parameters])
    return f"\n{head}\n{listed}    ) -> {result}:\n"


def path_of(operation: core.Operation) -> str:
    """The expression of the path."""
    path = operation.path
    for field in operation.path_fields:
        function = "path_parts" if field.style == "slashed" else "path_part"
        path = path.replace(f"{{{field.name}}}", f"{{{function}({name_of(field)})}}")
    return f'f"{path}"' if operation.path_fields else f'"{path}"'


def call(api: core.Api, operation: core.Operation, without: tuple[str, ...] = (), read: str = "") -> str:
    """The expression of a call, whose response `read` reads."""
    indent = " " * 12
    lines = [f'"{operation.method}"', path_of(operation), read or response_reader(api, operation)]
    fields = [field for field in operation.query_fields if field.name not in without]
    if fields:
        pairs = "".join(f'{indent}        ("{field.name}", {name_of(field)}, "{field.style}"),\n' for field in fields)
        lines.append(f"query=(\n{pairs}{indent}    )")
    if operation.body:
        pairs = "".join(f'{indent}        "{one.name}": {body_value(one)},\n' for one in operation.body.fields)
        lines.append(f"body={{\n{pairs}{indent}    }}")
    if operation.idempotent:
        lines.append("idempotency_key=idempotency_key or new_key()")
    if not operation.repeatable:
        lines.append("repeatable=False")
    body = "".join(f"{indent}    {line},\n" for line in lines)
    return f"Call(\n{body}{indent})"


def response_reader(api: core.Api, operation: core.Operation) -> str:
    """The expression that reads a response."""
    kind = operation.result_type
    if kind is None:
        return "read_text" if operation.result == "text" else "read_bytes"
    if isinstance(api.schemas[kind.name], core.Union):
        return f"json_reader(read_{core.snake(kind.name)})"
    return f"json_reader({kind.name}.read)"


def body_value(field: core.Field) -> str:
    """The expression of a field of the body: None leaves a field out, unless it clears it."""
    name = name_of(field)
    return name if field.required or field.type.nullable else f"given({name})"


def method(api: core.Api, operation: core.Operation, is_async: bool) -> str:
    """A method."""
    name = core.snake(operation.name)
    if operation.result == "stream":
        without = ("from_cursor",)
        parameters = [*arguments(operation, without), "cursor: str | None = None"]
        result = "AsyncEventStream" if is_async else "EventStream"
        head = explained(operation, STREAM_ABOUT, without)
        closing = '        """\n'
        assert head.endswith(closing)
        told = "            cursor: Resumes after this cursor, the one of the last message that was handled.\n"
        head = head[: -len(closing)] + told + closing
        body = returned("self._stream", call(api, operation, without), "cursor")
        return signature(name, parameters, result, False) + head + body
    result = {"text": "str", "bytes": "bytes"}.get(operation.result, "")
    if operation.result_type:
        result = annotation(operation.result_type)
    body = returned("await self._call" if is_async else "self._call", call(api, operation), "options")
    head = explained(operation, f"{operation.summary}\n\n{operation.about}")
    return signature(name, arguments(operation), result, is_async) + head + body


def iterator(api: core.Api, operation: core.Operation, is_async: bool) -> str:
    """The iterator over the rows of all pages."""
    assert operation.row_type is not None
    row = annotation(operation.row_type)
    result = f"{'AsyncIterator' if is_async else 'Iterator'}[{row}]"
    name = core.snake(operation.name)
    summary = f"Iterates over the rows of all pages of `{name}`, which it reads as they are needed."
    read = reader(api, operation.row_type, "row").removesuffix("(row)")
    without = ("cursor",)
    body = returned("self._rows", call(api, operation, without, "read_any"), read, "options")
    head = explained(operation, summary, without)
    return signature(core.snake(operation.iterator), arguments(operation, without), result, False) + head + body


def returned(function: str, *values: str) -> str:
    """The last lines of a method."""
    return f"        return {function}(\n" + "".join(f"            {value},\n" for value in values) + "        )\n"


STREAM_ABOUT = (
    "Follows events as they happen.\n\n"
    "After a break the stream opens again with its cursor, so that no event is missed. Each message has an event, or "
    "the gap that the service left, and the cursor after it: store the cursor once you have handled the message, and "
    "give it as `cursor` to continue later. With `from_` it replays the past, and with `to` it ends there."
)
