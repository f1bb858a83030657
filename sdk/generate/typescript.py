"""Writes the types, the classes of errors and the methods of the TypeScript SDK. Fields have the names of the JSON."""

from __future__ import annotations

import json
import re
import textwrap

import core

FOLDER = "typescript/src/"
HEAD = f"// {core.NOTICE}\n"
WIDTH = 116


def files(api: core.Api) -> dict[str, str]:
    """The generated files."""
    return {
        FOLDER + "types.ts": types(api),
        FOLDER + "operations.ts": operations(api),
        FOLDER + "error_classes.ts": error_classes(api),
    }


def comment(text: str, indent: str = "") -> str:
    """A description as a comment."""
    lines = core.paragraphs(text.replace("*/", "*\\/"), WIDTH - len(indent) - 7)
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    inner = "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines)
    return f"{indent}/**\n{inner}{indent} */\n"


def expression(kind: core.Type, is_input: bool = False) -> str:
    """The type of a value."""
    match kind.kind:
        case "string" | "date":
            text = " | ".join(json.dumps(value) for value in kind.values)
            text = f"{text} | Other" if text else "string"
        case "integer" | "number":
            text = "number"
        case "boolean":
            text = "boolean"
        case "time":
            text = "string | Date" if is_input else "string"
        case "const":
            text = json.dumps(kind.value)
        case "ref":
            text = kind.name
        case "list":
            assert kind.item is not None
            item = expression(kind.item, is_input)
            item = f"({item})" if " " in item else item
            text = f"readonly {item}[]" if is_input else f"{item}[]"
        case "map":
            assert kind.item is not None
            text = f"Record<string, {expression(kind.item, is_input)}>"
        case _:
            text = "Record<string, unknown>"
    return f"{text} | null" if kind.nullable else text


def field(one: core.Field, is_input: bool) -> str:
    """A field of an interface."""
    kind = expression(one.type, is_input)
    if one.style in ("comma", "repeat"):
        assert one.type.item is not None
        kind = f"OneOrMore<{expression(one.type.item, is_input)}>"
    if not one.required:
        kind = f"{kind} | undefined"
    name = one.name if re.fullmatch("[A-Za-z_]+", one.name) else json.dumps(one.name)
    about = one.about.removeprefix("Comma-separated ")
    return f"{comment(about[0].upper() + about[1:], '  ')}  {name}{'' if one.required else '?'}: {kind};\n"


def types(api: core.Api) -> str:
    """The file of all types."""
    parts = [HEAD, "// The types of requests and responses. A newer service may send more fields.\n\n", PREFACE]
    for schema in api.schemas.values():
        if isinstance(schema, core.Enum):
            values = " | ".join(json.dumps(value) for value in schema.values)
            about = f"{schema.about} Newer services may send other values."
            parts.append(f"\n{comment(about)}{alias(schema.name, f'{values} | Other')}")
        elif isinstance(schema, core.Object):
            body = "".join(field(one, schema.is_input) for one in schema.fields)
            parts.append(f"\n{comment(schema.about)}export interface {schema.name} {{\n{body}}}\n")
        else:
            parts.append(f"\n{comment(schema.about)}{alias(schema.name, ' | '.join(schema.variants.values()))}")
    for operation in api.operations:
        if operation.query_fields:
            parts.append(query(operation))
    return "".join(parts)


PREFACE = """\
/** A text that this version does not know. */
export type Other = string & Record<never, never>;

/** One value, or several of which any one may match. */
export type OneOrMore<T> = T | readonly T[];
"""


def alias(name: str, members: str) -> str:
    """A type with another name."""
    line = f"export type {name} = {members};\n"
    if len(line) <= WIDTH:
        return line
    return f"export type {name} =" + "".join(f"\n  | {member}" for member in members.split(" | ")) + ";\n"


def query(operation: core.Operation) -> str:
    """The interface of an operation's query."""
    left_out = ("from_cursor",) if operation.result == "stream" else ()
    body = "".join(field(one, True) for one in operation.query_fields if one.name not in left_out)
    about = f"What `{operation.name}` takes."
    return f"\n{comment(about)}export interface {query_name(operation)} {{\n{body}}}\n"


def query_name(operation: core.Operation) -> str:
    """The name of the interface of an operation's query."""
    return f"{core.pascal(operation.name)}Query"


def error_classes(api: core.Api) -> str:
    """The file of the errors' classes."""
    parts = [HEAD, "// A class for each class of errors.\n\n", 'import { ApiError } from "./errors.js";\n']
    names = {}
    for kind in api.error_types:
        names[kind] = f"{core.pascal(kind)}Error".replace("PermissionError", "PermissionDeniedError")
        codes = [f"- `{error.code}`: {error.about}." for error in api.errors if error.type == kind]
        about = f"An error of the type `{kind}`.\n\nIts codes:\n\n" + "\n".join(codes)
        parts.append(f"\n{comment(about)}export class {names[kind]} extends ApiError {{\n")
        parts.append(f'  override readonly name: string = "{names[kind]}";\n}}\n')
    lines = "".join(f"  {kind}: {name},\n" for kind, name in names.items())
    head = "export const ERROR_CLASSES: Record<string, typeof ApiError> ="
    parts.append(f"\n/** The classes by the type of an error. */\n{head} {{\n{lines}}};\n")
    return "".join(parts)


def operations(api: core.Api) -> str:
    """The file of all methods."""
    methods = [method(operation) for operation in api.operations]
    methods += [iterator(operation) for operation in api.operations if operation.row_type]
    body = "\n".join(methods)
    code = core.identifiers(re.sub(r"/\*\*.*?\*/", "", body, flags=re.DOTALL))
    queries = [query_name(operation) for operation in api.operations if operation.query_fields]
    names = sorted(name for name in [*api.schemas, *queries] if name in code)
    imported = "".join(f"  {name},\n" for name in names)
    return (
        f"{HEAD}// The operations of the API.\n\n"
        'import { Base, type CallOptions, type StreamOptions } from "./base.js";\n'
        'import { readBytes, readText, segment, segments } from "./call.js";\n'
        f'import type {{ EventStream }} from "./stream.js";\nimport type {{\n{imported}}} from "./types.js";\n\n'
        "/** A method for each operation of the API. */\n"
        f"export abstract class Operations extends Base {{\n{body}}}\n"
    )


def parameters(operation: core.Operation) -> list[str]:
    """The parameters of a method: parts of the path, the body, the query, and options."""
    given = [f"{core.camel(one.name)}: {expression(one.type, True)}" for one in operation.path_fields]
    if operation.body:
        is_needed = any(one.required for one in operation.body.fields)
        given.append(f"body: {operation.body.name}{'' if is_needed else ' = {}'}")
    if operation.query_fields:
        is_needed = any(one.required for one in operation.query_fields)
        given.append(f"query: {query_name(operation)}{'' if is_needed else ' = {}'}")
    return [*given, f"options: {'StreamOptions' if operation.result == 'stream' else 'CallOptions'} = {{}}"]


def path_of(operation: core.Operation) -> str:
    """The expression of the path."""
    path = operation.path
    for one in operation.path_fields:
        function = "segments" if one.style == "slashed" else "segment"
        path = path.replace(f"{{{one.name}}}", f"${{{function}({core.camel(one.name)})}}")
    return f"`{path}`" if operation.path_fields else json.dumps(path)


def call(operation: core.Operation, without: tuple[str, ...] = ()) -> str:
    """The fields of a call."""
    lines = [f'method: "{operation.method}"', f"path: {path_of(operation)}"]
    fields = [one for one in operation.query_fields if one.name not in without]
    if fields:
        pairs = "".join(f'          ["{one.name}", query.{one.name}, "{one.style}"],\n' for one in fields)
        lines.append(f"query: [\n{pairs}        ]")
    if operation.body:
        lines.append("body")
    if operation.idempotent:
        lines.append("isIdempotent: true")
    if not operation.repeatable:
        lines.append("isRepeatable: false")
    return "{\n" + "".join(f"        {line},\n" for line in lines) + "      }"


def signature(name: str, given: list[str], result: str) -> str:
    """The first line of a method."""
    line = f"  {name}({', '.join(given)}): {result} {{\n"
    if len(line) <= WIDTH:
        return line
    return f"  {name}(\n" + "".join(f"    {one},\n" for one in given) + f"  ): {result} {{\n"


def about_of(operation: core.Operation, text: str) -> str:
    """The comment of a method, with what its parts of the path are."""
    told = [f"@param {core.camel(one.name)} - {one.about}." for one in operation.path_fields]
    parts = [text, *(["\n".join(told).replace("..", ".")] if told else [])]
    return textwrap.indent(comment("\n\n".join(parts)), "  ")


def method(operation: core.Operation) -> str:
    """A method."""
    if operation.result == "stream":
        body = f"    return this.stream(\n      {call(operation, ('from_cursor',))},\n      options,\n    );\n"
        return (
            about_of(operation, STREAM_ABOUT)
            + signature(
                operation.name,
                parameters(operation),
                "EventStream",
            )
            + body
            + "  }\n"
        )
    result, read = "string" if operation.result == "text" else "Uint8Array", ""
    if operation.result_type:
        result = expression(operation.result_type)
    else:
        read = "      readText,\n" if operation.result == "text" else "      readBytes,\n"
    head = about_of(operation, f"{operation.summary}\n\n{operation.about}")
    lines = f"      {call(operation)},\n      options,\n{read}"
    body = f"    return this.call<{result}>(\n{lines}    );\n"
    return head + signature(operation.name, parameters(operation), f"Promise<{result}>") + body + "  }\n"


def iterator(operation: core.Operation) -> str:
    """The iterator over the rows of all pages."""
    assert operation.row_type is not None
    row = expression(operation.row_type)
    about = f"Iterates over the rows of all pages of `{operation.name}`, which it reads as they are needed."
    given = [
        one.replace(query_name(operation), f'Omit<{query_name(operation)}, "cursor">') for one in parameters(operation)
    ]
    lines = f"      {call(operation, ('cursor',))},\n      options,\n"
    body = f"    return this.rows<{row}>(\n{lines}    );\n"
    return (
        about_of(operation, about)
        + signature(operation.iterator, given, f"AsyncGenerator<{row}, void, void>")
        + body
        + "  }\n"
    )


STREAM_ABOUT = (
    "Follows events as they happen.\n\n"
    "After a break the stream opens again with its cursor, so that no event is missed. Each message has an event, or "
    "the gap that the service left, and the cursor after it: store the cursor once you have handled the message, and "
    "give it as `cursor` of the options to continue later. With `from` it replays the past, and with `to` it ends "
    "there."
)
