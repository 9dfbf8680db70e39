"""The rules of the house: which folder may know which, and what importing costs."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = (
    "protocol", "policy", "stores", "actors", "adapters", "testing", "console", "examples",
)  # fmt: skip
MAY_IMPORT = {
    "protocol": set[str](),
    "policy": {"protocol"},
    "stores": {"protocol"},
    "actors": {"protocol", "policy", "stores"},
    "adapters": {"protocol", "policy", "stores", "actors"},
    "testing": {"protocol", "policy", "stores", "actors"},
    "console": {"protocol", "policy", "stores", "actors", "examples"},
    "examples": {"protocol", "policy", "stores", "actors", "adapters"},
}
PURE = ("protocol", "policy", "actors/machine")
IMPURE = {
    "aiosqlite", "anyio", "asyncio", "datetime.datetime.now", "os", "pykka", "random",
    "secrets", "socket", "sqlite3", "subprocess", "threading", "time",
}  # fmt: skip
OPTIONAL = {
    "anthropic", "genai_prices", "httpx2", "hypothesis", "jsonschema_rs", "mcp", "mcp_types",
    "mistralrs", "openai", "pydantic_ai", "pytest", "rich", "typer", "uvloop", "yaml",
}  # fmt: skip


def files_of(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports_of(path: Path) -> set[str]:
    """Absolute imports of a file, those under TYPE_CHECKING included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_point_one_way(folder: str) -> None:
    for path in files_of(folder):
        known = {
            name.split(".")[1] for name in imports_of(path) if name.startswith("loopwright.")
        } & set(FOLDERS)
        assert known - {folder} <= MAY_IMPORT[folder], path


@pytest.mark.parametrize("folder", PURE)
def test_what_is_pure_knows_no_clock_no_loop_and_no_driver(folder: str) -> None:
    for path in files_of(folder):
        if path.name == "_diagram.py":
            continue  # a development tool: it writes the README
        assert not imports_of(path) & IMPURE, path


def test_only_actors_know_pykka() -> None:
    for folder in set(FOLDERS) - {"actors"}:
        for path in files_of(folder):
            assert "pykka" not in imports_of(path), path


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_file_does_one_thing_and_stays_short(folder: str) -> None:
    for path in files_of(folder):
        assert len(path.read_text().splitlines()) <= 450, path


@pytest.mark.parametrize("name", ["loopwright", *(f"loopwright.{f}" for f in FOLDERS[:-1])])
def test_every_public_name_can_be_imported(name: str) -> None:
    package = import_module(name)
    for public in getattr(package, "__all__", ()):
        assert getattr(package, public) is not None


def test_there_is_one_copy_of_each_module() -> None:
    import_module("loopwright.actors")
    import_module("loopwright.testing")
    for folder in FOLDERS:
        # Test folders may have the same names; what must not be loaded twice is ours.
        found = getattr(sys.modules.get(folder), "__file__", None)
        assert found is None or not Path(found).is_relative_to(ROOT / folder)


def test_importing_loopwright_pulls_in_no_optional_dependency() -> None:
    names = "Agent, Runtime, SyncRuntime, Policy, Budget, tool"
    code = f"import sys; from loopwright import {names}; print(*sys.modules)"
    shown = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert not {name.split(".")[0] for name in shown.split()} & OPTIONAL


def test_importing_the_adapters_pulls_in_no_optional_dependency() -> None:
    """Also not the classes that need one: it is imported where they are used."""
    code = (
        "import sys; from loopwright import adapters; adapters.MCPServer.stdio('a', 'b');"
        "print(*sys.modules)"
    )
    shown = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert not {name.split(".")[0] for name in shown.split()} & OPTIONAL


def test_importing_loopwright_imports_nothing_that_is_not_used() -> None:
    code = "import sys, loopwright; print(*sys.modules)"
    shown = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert "pydantic" not in shown
    assert "asyncio" not in shown


def test_core_dependencies_stay_four() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {dependency.split(">")[0] for dependency in project["dependencies"]} == {
        "anyio", "orjson", "pydantic", "pykka",
    }  # fmt: skip


def test_a_wheel_holds_only_loopwright(tmp_path: Path) -> None:
    """`pip install .` puts one package into site-packages, with every folder in it."""
    from zipfile import ZipFile

    from hatchling.builders.wheel import WheelBuilder

    (made,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = ZipFile(made).namelist()
    assert {name.split("/")[0] for name in names} == {"loopwright", "loopwright-0.1.0.dist-info"}
    inside = {name.split("/")[1] for name in names if name.startswith("loopwright/")}
    assert set(FOLDERS) | {"__init__.py", "__main__.py", "py.typed"} == inside
