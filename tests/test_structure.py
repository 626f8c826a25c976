"""Rules of the tree: models and hardware are independent, and links in documents lead somewhere."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("golden", "hw", "scripts", "sw", "tb")
MAY_NOT_IMPORT = {
    # A model that shares code with the hardware would share its mistakes.
    "golden": {"hw", "tb", "scripts", "sw"},
    "hw": {"golden", "tb", "scripts", "sw"},
    "tb": {"scripts"},
    "sw": {"scripts"},
}
DOCUMENTS = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("[a-z]*/README.md")})


def imported(path: Path) -> set[str]:
    """First components of everything that a file imports, at any depth of its code."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("package", sorted(MAY_NOT_IMPORT))
def test_layers(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    broken = {str(file.relative_to(ROOT)): sorted(imported(file) & MAY_NOT_IMPORT[package]) for file in files}
    assert {file: names for file, names in broken.items() if names} == {}


def test_imports_are_seen(tmp_path):
    probe = tmp_path / "probe.py"
    probe.write_text("import hw.config as c\ndef f():\n    from golden.formats import x\nfrom . import y\n")
    assert imported(probe) == {"hw", "golden"}


def links(path: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8"))
    return [target.split("#")[0] for target in targets if not re.match(r"[a-z]+:|#", target)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    assert [target for target in links(document) if not (document.parent / target).exists()] == []


def test_every_page_is_reachable_from_the_readme():
    seen, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        seen.add(page)
        for target in links(page):
            linked = (page.parent / target).resolve()
            if linked.suffix == ".md" and linked not in seen:
                waiting.append(linked)
    assert [str(page.relative_to(ROOT)) for page in DOCUMENTS if page not in seen] == []


def test_every_decision_is_in_the_table():
    folder = ROOT / "docs" / "decisions"
    pages = {page.name for page in folder.glob("[0-9]*.md")}
    assert len(pages) > 1 and pages <= set(links(folder / "README.md"))
