"""What C++ sources define, and how long it is: functions, with their parameters, and classes.

Not a compiler's view: it reads sources as clang-format leaves them, and knows braces, comments, literals and
what stands before a brace. Macros that end in a parenthesis and have a body (test cases) are functions to it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

LITERAL_OR_COMMENT = re.compile(
    r'R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\''
    r"|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
CLASS = re.compile(
    r"^(?:template\s*<.*>\s*)?(?:class|struct|union)\s+(?:\[\[\w+\]\]\s*)?(?P<name>[\w:]+)", re.DOTALL
)
# What may stand between a parameter list and the body.
AFTER_PARAMETERS = re.compile(
    r"\)\s*(?:const|noexcept|override|final|mutable|try|&&?|->[\w\s:<>,*&]+|\s)*(?P<initialisers>:[^:].*)?$",
    re.DOTALL,
)
NAME = re.compile(
    r"((?:[\w~]+\s*(?:<[^<>()]*>)?\s*::\s*)*(?:operator\s*(?:\(\)|[^\s\w(]+|\w[\w\s*&]*)|~?\w+))\s*$"
)


@dataclass(frozen=True)
class Function:
    """A function that is defined in a file; `owner` is the class it belongs to, or empty."""

    name: str
    owner: str
    parameters: int
    first_line: int
    last_line: int

    @property
    def lines(self) -> int:
        return self.last_line - self.first_line + 1


@dataclass
class Outline:
    """The functions of a file, and the lines of its class definitions by name."""

    functions: list[Function] = field(default_factory=list)
    classes: dict[str, int] = field(default_factory=dict)


@dataclass
class _Scope:
    kind: str  # "namespace", "class", "function" or "other"
    name: str
    header: str
    parameters: int
    line: int


def blanked(text: str) -> str:
    """The source without literals, comments and directives, every line where it was."""

    def blank(match: re.Match[str]) -> str:
        return '""' + "\n" * match[0].count("\n") if match[0][0] in "\"'R" else "\n" * match[0].count("\n")

    return LITERAL_OR_COMMENT.sub(blank, text)


def split_parameters(text: str) -> list[str]:
    """Cuts what is between the parentheses at the commas that are not inside of anything."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, "[": 1, "{": 1, "<": 1, ")": -1, "]": -1, "}": -1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]


def parse_function(header: str) -> tuple[str, int] | None:
    """The name and the number of parameters of the function whose body follows; None for anything else."""
    text = re.sub(r"\[\[\w+\]\]", "", header).strip()
    after = AFTER_PARAMETERS.search(text)
    if after is None or text.count("(") != text.count(")") or re.match(r"(?:using|typedef|enum)\b", text):
        return None
    if after["initialisers"] and text[-1] not in ")}":
        return None  # a member that is initialised with braces
    depth = angles = 0
    for at, character in enumerate(text):
        if character in "<>" and "operator" not in text[:at][-9:]:
            angles += 1 if character == "<" else -1
        elif character == "(" and angles <= 0:
            found = NAME.search(text[:at])
            if found is None or found[1] in {
                "decltype",
                "requires",
                "alignas",
                "if",
                "for",
                "while",
                "switch",
            }:
                return None
            if found[1].rstrip().endswith("operator"):
                continue
            for end in range(at, len(text)):
                depth += {"(": 1, ")": -1}.get(text[end], 0)
                if depth == 0:
                    return re.sub(r"\s", "", found[1]), len(split_parameters(text[at + 1 : end]))
            return None
        elif character == "=" and angles <= 0 and "operator" not in text[:at][-9:]:
            return None
    return None


def outline(source: str) -> Outline:
    """What a C++ file defines outside of functions."""
    found = Outline()
    text = blanked(source)
    scopes: list[_Scope] = []
    header, header_line, line = "", 0, 1
    for character in text:
        inside = any(scope.kind == "function" for scope in scopes)
        if character == "{":
            scope = _open(header, scopes, inside, header_line or line)
            scopes.append(scope)
            header = "" if scope.kind != "other" else header + "{"
        elif character == "}":
            scope = scopes.pop() if scopes else _Scope("namespace", "", "", 0, line)
            if scope.kind == "other":
                header += "}"
            else:
                _close(found, scope, scopes, line)
                header, header_line = "", 0
        elif character == ";" and not any(scope.kind == "other" for scope in scopes):
            header, header_line = "", 0
        else:
            if not header.strip() and not character.isspace():
                header, header_line = "", line
            header += character
            if re.fullmatch(r"\s*(?:public|private|protected)\s*:", header):
                header, header_line = "", 0
        line += character == "\n"
    return found


def _open(header: str, scopes: list[_Scope], inside: bool, line: int) -> _Scope:
    if inside or any(scope.kind == "other" for scope in scopes):
        return _Scope("other", "", header, 0, line)
    if re.match(r"\s*(?:inline\s+)?namespace\b|\s*extern\s+\"\"\s*$", header):
        return _Scope("namespace", "", header, 0, line)
    if named := CLASS.match(header.strip()):
        return _Scope("class", named["name"], header, 0, line)
    if function := parse_function(header):
        return _Scope("function", function[0], header, function[1], line)
    return _Scope("other", "", header, 0, line)


def _close(found: Outline, scope: _Scope, scopes: Iterable[_Scope], line: int) -> None:
    outer = [other.name for other in scopes if other.kind == "class"]
    if scope.kind == "class":
        found.classes["::".join([*outer, scope.name])] = line - scope.line + 1
    elif scope.kind == "function":
        name = re.sub(r"<[^<>]*>", "", scope.name)
        owner = "::".join([*outer, *name.split("::")[:-1]])
        found.functions.append(Function(scope.name, owner, scope.parameters, scope.line, line))


def class_lines(outlines: Iterable[Outline]) -> Iterator[tuple[str, int]]:
    """How long each class is: its definition, and those of its members that are elsewhere."""
    total: defaultdict[str, int] = defaultdict(int)
    for one in outlines:
        for name, lines in one.classes.items():
            total[name] += lines
        for function in one.functions:
            if "::" in function.name:
                total[function.owner] += function.lines
    yield from total.items()
