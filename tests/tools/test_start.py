"""How a verb starts: what it loads, what an older Python gets to see, an interrupt before it."""

from __future__ import annotations

import ast
import os
import select
import signal
from pathlib import Path

import pytest

from scripts import __main__ as command
from tests.tools.product import REPO, Product

MAIN = REPO / "scripts" / "__main__.py"
# Stops the import of one module until a test has looked.
HOLD = """\
import os, sys

class Hold:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["HELD"]:
            with open(os.environ["READY"], "w") as file:
                file.write("ready")
            open(os.environ["GATE"]).read()

sys.meta_path.insert(0, Hold())
"""


LIST = """\
import atexit, os, sys
atexit.register(lambda: open(os.environ["LOADED"], "w").write(" ".join(sys.modules)))
"""


@pytest.mark.parametrize("verb", ["status", "lint", "apply"])
def test_a_verb_loads_what_it_needs(applied: Product, tmp_path: Path, verb: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(LIST)
    applied.succeed(verb, LOADED=str(tmp_path / "loaded"), PYTHONPATH=str(tmp_path))
    modules = set((tmp_path / "loaded").read_text().split())
    assert "scripts.verbs.series" in modules
    wings = {name.split(".")[1] for name in modules if name.startswith("scripts.")}
    assert wings <= {"core", "options", "release", "series", "verbs"}
    assert not modules & {"ssl", "tarfile", "xml.etree.ElementTree", "yaml"}


def test_every_verb_is_there() -> None:
    for name, (place, _) in command.VERBS.items():
        module, _, function = place.partition(".")
        tree = ast.parse((REPO / "scripts" / "verbs" / f"{module}.py").read_text())
        assert function in [n.name for n in tree.body if isinstance(n, ast.FunctionDef)], name


def test_an_older_python_gets_one_clear_line(product: Product, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.version_info = (3, 7, 16)\n")
    done = product.run("status", PYTHONPATH=str(tmp_path))
    assert (done.code, done.error) == (2, "Python 3.11 or newer is needed")
    assert done.hint == "make PYTHON=python3.12 VERB"


def test_an_older_python_can_read_as_far_as_that_line() -> None:
    for path in (MAIN, MAIN.with_name("__init__.py")):
        tree = ast.parse(path.read_text(), feature_version=(3, 6))
        futures = [n for n in tree.body if getattr(n, "module", "") == "__future__"]
        assert futures == [], path  # `annotations` is of 3.7


@pytest.mark.parametrize(
    "held", ["signal", "argparse", "scripts.options", "scripts.verbs.series", "scripts.core.git"]
)
def test_an_interrupt_while_modules_load_prints_one_line(
    applied: Product, tmp_path: Path, held: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HOLD)
    ready, gate = tmp_path / "ready", tmp_path / "gate"
    os.mkfifo(ready)
    os.mkfifo(gate)
    reader = os.open(ready, os.O_RDWR)
    env = {"HELD": held, "READY": str(ready), "GATE": str(gate), "PYTHONPATH": str(tmp_path)}
    running = applied.start("status", **env)
    try:
        assert select.select([reader], [], [], 60)[0], "it did not come to this import"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    finally:
        os.close(reader)
        running.kill()
    assert (running.returncode, out, err) == (130, "", "interrupted\n")
