"""The golden models and the hardware share no code: neither package imports the other."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.mark.parametrize(("package", "forbidden"), [
    ("golden", {"hw", "tb", "sw", "scripts", "amaranth", "cocotb"}),
    ("hw", {"golden"}),
])
def test_imports(package, forbidden):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files, f"{package} has no Python files"
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            found = {name.split(".")[0] for name in names} & forbidden
            assert not found, f"{file.relative_to(ROOT)}:{node.lineno} imports {found}"
