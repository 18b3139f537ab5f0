"""Rules of the house that no compiler checks: CONTRIBUTING.md states them."""

import ast
import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
from conftest import REPOSITORY
from cxx_outline import Outline, class_lines, outline

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
MAX_CLASS_LINES = 450
MAX_PARAMETERS = 6  # in src/node
GENERATED = {"python/square/_core.pyi"}  # by packaging/stubs.py
DATA = {"examples/gpt_sites/psalms.txt"}  # what programs read, whatever its suffix
SOURCE_SUFFIXES = {".h", ".cc", ".py", ".pyi", ".proto", ".cmake", ".txt", ".map"}
HEADERS = sorted((REPOSITORY / "include" / "square").glob("*.h"))

# Names of foreign types; prose in a comment may speak of them.
FOREIGN_NAMES = re.compile(
    r"\b(grpc|google|boost|xt|xtensor|pybind11|py|nlohmann|toml|fmt)::|\bClp\w*|<(grpc|boost)"
)


def files() -> list[Path]:
    """All files of the repository, committed or about to be."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for name in listing.stdout.splitlines() if (path := REPOSITORY / name).is_file()]


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def without_comments(cxx: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", cxx, flags=re.DOTALL)


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_public_header_names_std_types_only(header: Path) -> None:
    text = header.read_text(encoding="utf-8")
    found = FOREIGN_NAMES.search(without_comments(text))
    assert found is None, f"{name_of(header)} names {found[0] if found else ''}"
    assert "#pragma once" in text


def complaints_of_the_compiler(cxx: str) -> str:
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{REPOSITORY / 'include'}"]
    result = subprocess.run(
        [*compiler, *flags, "-x", "c++", "-"], input=cxx, capture_output=True, text=True, check=False
    )
    return result.stderr or ("" if result.returncode == 0 else "it failed")


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_public_header_compiles_alone(header: Path) -> None:
    assert complaints_of_the_compiler(f'#include "square/{header.name}"\n') == ""


def test_programs_in_the_documentation_compile() -> None:
    pages = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "docs").glob("*.md")]
    programs = [
        text
        for page in pages
        for text in re.findall(r"^```cpp\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
        if "int main(" in text
    ]
    assert programs
    for program in programs:
        assert complaints_of_the_compiler(program) == ""


def test_the_readme_is_short() -> None:
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) < 150


def test_files_are_short() -> None:
    long = {
        name_of(path): lines
        for path in files()
        if path.suffix in SOURCE_SUFFIXES
        and name_of(path) not in GENERATED | DATA
        and (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_FILE_LINES
    }
    assert long == {}


def test_python_functions_are_short() -> None:
    long = []
    for path in files():
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                long.append(f"{name_of(path)}: {node.name}: {lines} lines")
    assert long == []


def cxx_outlines() -> dict[Path, Outline]:
    """Of every C++ file of the repository, tests and bindings included."""
    return {
        path.relative_to(REPOSITORY): outline(path.read_text(encoding="utf-8"))
        for path in files()
        if path.suffix in {".h", ".cc"}
    }


def complaints_about_sizes(outlines: dict[Path, Outline]) -> list[str]:
    """Functions that are too long or take too much, and classes that are too long over all their files."""
    wrong = []
    for path, found in outlines.items():
        for function in found.functions:
            where = f"{path}:{function.first_line}: {function.name}"
            if function.lines > MAX_FUNCTION_LINES:
                wrong.append(f"{where}: {function.lines} lines")
            if path.parts[:2] == ("src", "node") and function.parameters > MAX_PARAMETERS:
                wrong.append(f"{where}: {function.parameters} parameters")
    # A class and its members are in one folder, but for those that are declared for users.
    public = Path("include/square")
    for folder in sorted({path.parent for path in outlines}):
        here = [found for path, found in outlines.items() if path.parent in {folder, public}]
        for name, lines in class_lines(here):
            if lines > MAX_CLASS_LINES:
                wrong.append(f"{folder}: class {name}: {lines} lines over all its files")
    return wrong


def test_cxx_functions_and_classes_are_short() -> None:
    outlines = cxx_outlines()
    assert sum(len(found.functions) for found in outlines.values()) > 3000, "the sources were not understood"
    assert complaints_about_sizes(outlines) == []


LONG_BODY = "  call();\n" * MAX_FUNCTION_LINES


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"namespace square {{\nint Thing::long_one(int a) const {{\n{LONG_BODY}}}\n}}\n", "72 lines"),
        (f'TEST_CASE("a brace {{ in words") {{\n{LONG_BODY}}}\n', "72 lines"),
        (f"PYBIND11_MODULE(_core, module) {{\n{LONG_BODY}}}\n", "72 lines"),
        (f"Thing::Thing(int a)\n    : a_{{a}}, b_([] {{ return 1; }}()) {{\n{LONG_BODY}}}\n", "73 lines"),
        ("struct A {\n  template <typename T>\n  auto f(T a) -> T {\n" + LONG_BODY + "  }\n};\n", "73 lines"),
        ("void f(A a, B<C, D> b, int c = g(1, 2),\n       int d, int e, int f, int g) {}\n", "7 parameters"),
        ("Thing::Thing(A, B, C, D, E, F, std::function<void(int, int)> g)\n    : a_{1} {}\n", "7 parameters"),
        ("class Big {\n" + "  int a;\n" * 300 + "};\nvoid Other::f() {}\n" + "void Big::f() {\n}\n" * 75,
         "class Big: 452 lines over all its files"),
        ("class Outer::Big final : B {\n" + "  void f();\n" * 450 + "};\n", "class Outer::Big: 452 lines"),
    ],
)  # fmt: skip
def test_what_is_too_long_or_takes_too_much_is_seen(text: str, complaint: str) -> None:
    found = complaints_about_sizes({Path("src/node/planted.cc"): outline(text)})
    assert len(found) == 1, found
    assert complaint in found[0]


@pytest.mark.parametrize(
    "text",
    [
        "int f() {\n" + "  call();\n" * (MAX_FUNCTION_LINES - 2) + "}\n",
        "constexpr int kTable[] = {\n" + "    1,\n" * 100 + "};\n",
        "enum class Kind : int {\n" + "  kOne,\n" * 100 + "};\n",
        "void f(A a, B<C, D> b, std::function<void(int, int)> c, int d, int e, int f) {}\n",
        'const char* kText = R"(\nvoid f() {\n' + "text {\n" * 100 + ')";\n',
        "// void f() {\n" * 100,
        "class A {\n" + "  int a;\n" * 300 + "};\nclass B {\n" + "  int a;\n" * 300 + "};\n",
    ],
)
def test_what_is_short_enough_passes(text: str) -> None:
    assert complaints_about_sizes({Path("src/node/planted.cc"): outline(text)}) == []


def test_no_file_is_named_after_nothing() -> None:
    vague = re.compile(r"(^|[_/.-])(utils?|managers?|helpers?|misc|common)([_/.-]|$)")
    assert [name_of(path) for path in files() if vague.search(name_of(path))] == []


def test_nothing_is_left_to_do() -> None:
    unfinished = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b|\(being written\)")
    found = [
        name_of(path)
        for path in files()
        if path.suffix in SOURCE_SUFFIXES - {".txt"}
        and path != Path(__file__).resolve()
        and unfinished.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_the_readme_begins_with_the_two_commands() -> None:
    head = (REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()[:8]
    commands = [line.split("#")[0].strip() for line in head if line.strip().startswith("make ")]
    assert commands == ["make demo", "make test"]


def test_tests_of_a_file_stay_together(request: pytest.FixtureRequest) -> None:
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@test_repository"), "pytest-xdist does not see the groups"


def test_versions_agree() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cmake = (REPOSITORY / "CMakeLists.txt").read_text(encoding="utf-8")
    found = re.search(r"project\(square VERSION ([\d.]+)", cmake)
    assert found is not None
    assert found[1] == project["version"]
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{project['version']}]" in changelog


def test_every_package_has_a_reason() -> None:
    lines = (REPOSITORY / "packaging" / "debian-packages.txt").read_text(encoding="utf-8").splitlines()
    packages = [line.split("#")[0].strip() for line in lines if line.split("#")[0].strip()]
    assert len(set(packages)) == len(packages)
    reasons = (REPOSITORY / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert [package for package in packages if f"`{package}`" not in reasons] == []


def test_links_between_documents_lead_somewhere() -> None:
    link = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
    broken = [
        f"{name_of(path)}: {target}"
        for path in files()
        if path.suffix == ".md"
        for target in link.findall(path.read_text(encoding="utf-8"))
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert broken == []
