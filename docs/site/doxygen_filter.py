"""Makes the comments of a public header such as Doxygen reads; it runs this over each (INPUT_FILTER).

    python docs/site/doxygen_filter.py HEADER

The headers have plain comments, for people who read them in an editor. A block that stands directly before a
declaration becomes documentation of it, one after a declaration on its line documentation of that, the one at
the top that of the file. What is private goes. A line stays on its line, so that Doxygen's warnings name the
right one.
"""

import re
import sys
from pathlib import Path

COMMENT = re.compile(r"( *)//(?: (.*)|)$")
TRAILING = re.compile(r"( *[^ ].*?[;,}\w]) *  // (.*)$")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
# Braces that open a scope of declarations; every other one opens a body or a value.
SCOPE = re.compile(r"^(?!.*\)[^>]*$).*\b(namespace|class|struct|enum|union)\b")
# What stands directly after a comment and still is none of its business.
NOT_DECLARED = re.compile(r" *(#|\}|public:|private:|protected:|friend |namespace |static_assert)")
LIST_ITEM = re.compile(r" *- ")
VERBATIM_INDENT = 2
# What Doxygen would take for a command, a tag or a link.
SPECIAL = re.compile(r"([\\@<>&#%])")


def escaped(text: str) -> str:
    """What is between backticks is left alone, as Doxygen does."""
    parts = text.split("`")
    return "`".join(part if at % 2 else SPECIAL.sub(r"\\\1", part) for at, part in enumerate(parts))


def documentation(lines: list[str]) -> list[str]:
    """A block's lines, as many as they were. Tables and formulas, which are indented, keep their columns."""
    made: list[str] = []
    verbatim = in_list = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        in_list = bool(line) and (bool(LIST_ITEM.match(line)) or (in_list and indent > 1))
        is_table = indent >= VERBATIM_INDENT and not in_list and bool(made)
        if is_table and not verbatim:
            made[-1] += " @verbatim"
        elif verbatim and not is_table:
            made[-1] += " @endverbatim"
        made.append(line if is_table else escaped(line))
        verbatim = is_table
    made[0] = f"/** {made[0]}"
    made[-1] += " @endverbatim */" if verbatim else " */"
    return made


class Scopes:
    """Whether a line is among declarations, or in the body of a function or in a value."""

    def __init__(self) -> None:
        self._open: list[bool] = []
        self._statement = ""

    @property
    def depth(self) -> int:
        return len(self._open)

    @property
    def declare(self) -> bool:
        return all(self._open)

    def read(self, line: str) -> None:
        for character in STRING.sub('""', line.split("//")[0]):
            if character == "{":
                self._open.append(bool(SCOPE.search(self._statement)))
            elif character == "}" and self._open:
                self._open.pop()
            self._statement = "" if character in "{};" else self._statement + character
        self._statement += " "


class Filter:
    def __init__(self) -> None:
        self.made: list[str] = []
        self._scopes = Scopes()
        self._block: list[str] = []  # comments not yet written: what follows decides what they are
        self._trailing_column = -1  # of the comment that ended the line before
        self._private_depth = 0  # of the class whose private part this is; 0: none

    def read(self, line: str, next_line: str) -> None:
        if line.strip() == "private:" and not self._private_depth:
            self._write_block(line)
            self._private_depth = self._scopes.depth
        if self._private_depth:
            self._read_private(line)
            return
        comment = COMMENT.match(line)
        if comment and len(comment[1]) == self._trailing_column:
            self.made.append(f"{comment[1]}///< {escaped(comment[2] or '')}")
        elif comment or (self._block and not line and COMMENT.match(next_line)):
            # One that has a blank line and another comment after it speaks of all that follows.
            self._block.append(line)
            self._trailing_column = -1
        else:
            self._write_block(line)
            self._write(line)
            self._scopes.read(line)

    def _read_private(self, line: str) -> None:
        self._scopes.read(line)
        ends = self._scopes.depth < self._private_depth
        self.made.append(line if ends else "")
        if ends:
            self._private_depth = 0

    def _documents(self, line: str) -> bool:
        return bool(line) and self._scopes.declare and not NOT_DECLARED.match(line)

    def _write_block(self, line: str) -> None:
        if self._block and (line.startswith("#pragma once") or self._documents(line)):
            texts = [each.strip().removeprefix("//").removeprefix(" ") for each in self._block]
            self._block = documentation(texts)
        self.made += self._block
        self._block = []

    def _write(self, line: str) -> None:
        trailing = TRAILING.match(line)
        self._trailing_column = -1
        if line.startswith("#pragma once"):
            self.made[-1:] = [self.made[-1].removesuffix(" */")] if self.made else ["/**"]
            line = "@file */"
        elif trailing and self._documents(line):
            self._trailing_column = line.index("//")
            line = f"{trailing[1]}  ///< {escaped(trailing[2])}"
        self.made.append(line)


def filtered(text: str) -> str:
    lines = text.split("\n")
    reader = Filter()
    for line, next_line in zip(lines, [*lines[1:], ""], strict=True):
        reader.read(line, next_line)
    return "\n".join(reader.made)


if __name__ == "__main__":
    sys.stdout.write(filtered(Path(sys.argv[1]).read_text(encoding="utf-8")))
