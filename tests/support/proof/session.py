"""One pytest session in a forked process: until a test notices, or to record all of them."""

# ruff: noqa: ANN401 (whatever a test raises)

from __future__ import annotations

import importlib
import os
import resource
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.proof.calls import CallRecorder, noted

_MEMORY = 10 << 30  # bytes; without its hunk, a test may ask for any number
_NAMES = (ImportError, SyntaxError, NameError)
_OPTIONS = (
    "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "pytest_timeout", "--timeout-method=signal",
)  # fmt: skip


Tell = Callable[[dict[str, Any]], None]


def run(work: dict[str, Any], tell: Tell) -> None:
    """Tell each test before it runs, as {"now": test}, and at the end what came out.

    `work`: `modules` (paths of test modules, or what else pytest takes), `folder` (for temporary
    files), `seconds` a test may take; then `order`: the tests to run, in order, until one fails,
    or with `all` whatever fails; or, to record every test, modules to `load` before, `tree` and
    `paths`, the files below it whose functions note their calls.
    """
    # To load the plugins of the environment takes longer than most tests.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    options = [*_OPTIONS, f"--basetemp={work['folder']}", f"--timeout={work['seconds']}"]
    if "order" in work:
        # The file without a hunk is about to change again, within the second.
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        ordered = _Ordered(work["order"], tell)
        options += [] if work.get("all") else ["-x"]
        pytest.main([*options, *work["modules"]], plugins=[ordered])
        tell({"ran": ordered.ran, "failed": ordered.failed})
        return
    recorder = CallRecorder()
    with noted(Path(work["tree"]), work["paths"], recorder):
        load(work["load"])  # so that no test's time is that of an import
        pytest.main([*options, *work["modules"]], plugins=[recorder])
    tell({"tests": recorder.tests})


def load(modules: Sequence[str]) -> None:
    """Import these, as far as they can be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in modules:
            try:
                importlib.import_module(name)
            except Exception:  # who needs it will say so
                continue


class _Ordered:
    """Runs tests in a given order; keeps those that fail: test or module, how, and its words."""

    def __init__(self, order: list[str], tell: Tell) -> None:
        self._tell = tell
        self._rank = {test: n for n, test in enumerate(order)}
        self.failed: list[dict[str, str]] = []
        self.ran: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._rank),
            key=lambda item: self._rank[item.nodeid],
        )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.ran.append(nodeid)
        self._tell({"now": nodeid})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            said = str(report.longrepr).strip().splitlines() or [""]
            self.failed.append({"test": report.nodeid, "how": "import", "said": said[-1]})

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        report = yield
        if report.failed and call.excinfo is not None:
            how = "import" if _is_of_names(call.excinfo.value) else "test"
            said = call.excinfo.exconly(tryshort=True).splitlines() or [""]
            self.failed.append({"test": item.nodeid, "how": how, "said": said[0]})
        return report


def _is_of_names(error: BaseException | None) -> bool:
    """Whether a module or a name is missing, at the bottom of what was raised."""
    while error is not None:
        if isinstance(error, _NAMES):
            return True
        error = error.__cause__ or error.__context__
    return False
