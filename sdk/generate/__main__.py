"""Writes the code of the SDKs that follows from the description: `python3 sdk/generate`.

With `--check` it writes nothing, and fails if a file differs from what it would write.
"""

import importlib
import pathlib
import sys

import core

HERE = pathlib.Path(__file__).resolve().parent


def main() -> None:
    """Runs every target."""
    api = core.load(HERE.parent / "openapi.json")
    targets = sorted(file.stem for file in HERE.glob("[a-z]*.py") if file.stem != "core")
    stale = []
    for target in targets:
        for path, text in importlib.import_module(target).files(api).items():
            file = HERE.parent / path
            if not file.exists() or file.read_text(encoding="utf-8") != text:
                stale.append(path)
                if "--check" not in sys.argv:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(text, encoding="utf-8", newline="\n")
    for path in stale:
        print(f"sdk/{path}", "differs: run python3 sdk/generate" if "--check" in sys.argv else "written")
    if stale and "--check" in sys.argv:
        sys.exit(1)


if __name__ == "__main__":
    main()
