"""Guides as they are written: their snippets in order, and whether their blocks have the forms that guides may have."""

import dataclasses
import json
import pathlib

import markdown_it

# Languages whose blocks are run, and others that a block may be in.
RUN, SHOWN = ("sh", "python", "js", "go", "rust"), ("json", "text", "ini", "proto")
# Languages that a guide must have.
EACH = ("sh", "python", "js", "go")
# The programs in Rust, which are compiled with the SDK: to compile each of them here would take minutes.
RUST_PROGRAMS = pathlib.Path(__file__).resolve().parents[2] / "sdk/rust/examples/guides"
# The second word of a block's info string, and the languages in which it means something.
WAYS = {"keeps": ("sh",), "stream": RUN, "server": RUN}
# Guides that need not show each language: operators use the command line, analysts Python, curl opens no WebSocket and is
# no SDK, and settings connect a language model.
NOT_IN_EACH = (
    "operators", "deploy", "data", "observability", "archive", "streams-websocket", "command-line", "mcp", "sdks",
)


class Wrong(Exception):
    """What is wrong with a guide or a snippet."""


@dataclasses.dataclass
class Snippet:
    """A block that is run."""

    guide: str
    line: int
    language: str
    way: str
    code: str

    def __str__(self):
        return f"{self.guide}.md:{self.line} {self.language} {self.way}".rstrip()


@dataclasses.dataclass
class Guide:
    """A page, what is wrong with the forms of its blocks, and its snippets."""

    name: str
    snippets: list[Snippet]
    wrong: list[str]


def read(path: pathlib.Path, api_url: str = "http://127.0.0.1:8080") -> Guide:
    """A guide, with this URL in the place of the deployment's."""
    guide = Guide(path.stem, [], [])
    for token in markdown_it.MarkdownIt("commonmark").parse(path.read_text()):
        if token.type not in ("fence", "code_block"):
            continue
        line = token.map[0] + 1
        words = token.info.split()
        code = token.content.replace("{{api_url}}", api_url)
        try:
            language, way = form(token.type, words, code)
        except Wrong as wrong:
            guide.wrong.append(f"{guide.name}.md:{line}: {wrong}")
            continue
        if language in RUN:
            guide.snippets.append(Snippet(guide.name, line, language, way, code))
    if guide.name not in NOT_IN_EACH:
        missing = [language for language in EACH if not any(snippet.language == language for snippet in guide.snippets)]
        if missing:
            guide.wrong.append(f"{guide.name}.md: no snippet in {', '.join(missing)}")
    return guide


def form(kind: str, words: list[str], code: str) -> tuple[str, str]:
    """The language of a block, and how it is run."""
    if kind != "fence":
        raise Wrong("code by indentation has no language; put it into a fence")
    language, way, *more = [*words, "", ""][: max(2, len(words))]
    if language not in RUN + SHOWN:
        raise Wrong(f"{language or 'no language'}: blocks are in {', '.join(RUN + SHOWN)}")
    if more or (way and language not in WAYS.get(way, ())):
        raise Wrong(f"{' '.join(words)}: the words after {language} are not known")
    if language == "json":
        try:
            json.loads(code)
        except ValueError as error:
            raise Wrong(f"not JSON: {error}\n{code}") from error
    if language == "rust":
        rust_program(code)
    return language, way


def rust_program(code: str) -> str:
    """The name of the program in Rust with this text."""
    for file in RUST_PROGRAMS.glob("*.rs"):
        if file.read_text() == code:
            return file.stem
    raise Wrong(f"no file in {RUST_PROGRAMS} has this text:\n{code}")
