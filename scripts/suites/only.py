"""A test by its id, in the environment of its suite, with all that pytest says on the terminal."""

from __future__ import annotations

import subprocess

from scripts.core import tools
from scripts.core.errors import CheckFailed
from scripts.core.layout import Layout
from scripts.suites import runner, sessions
from scripts.suites.sessions import Say

_TOOLS = ("tests/tools/", "tests/pages/")
_OURS = (*_TOOLS, "tests/regression/", "tests/engine/")


def needs(test: str) -> str:
    """The environment that the test runs in, `tools` or `venv`."""
    return "tools" if test.startswith(_TOOLS) else "venv"


def run(layout: Layout, device: str, test: str, say: Say) -> None:
    """Run the test, or each below that folder or module; raise where it fails or there is none.

    Any id that is not ours is upstream's, in the work clone.
    """
    if test.startswith(_OURS):
        of_tools = needs(test) == "tools"
        python = tools.ensure(layout) if of_tools else layout.venv / "bin" / "python"
        command = [str(python), "-m", "pytest", "-q", test, *sessions.collector({})]
        env, cwd = runner.environment(layout, device, of_tools=of_tools), layout.root
    else:
        command = [*sessions.pytest(layout.venv / "bin" / "python"), test]
        env, cwd = sessions.around(layout, layout.clone, device, say), layout.clone
    done = subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise CheckFailed(f"pytest ended with {done.returncode}", hint="see above")
