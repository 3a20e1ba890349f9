"""What git takes for author, title, message and diff of a patch file."""

from __future__ import annotations

import email
import email.policy
import re
import tempfile
from collections.abc import Iterator
from email.utils import parseaddr
from pathlib import Path

from scripts.core.git import Git, GitError
from scripts.series.mails import Patch
from scripts.series.mbox import CUT


def read_otherwise(patch: Patch) -> Iterator[str]:
    """Where `git am` makes something else of a mail than what stands in it."""
    cut = CUT.search(patch.raw)
    at = cut.start() if cut else len(patch.raw)
    head, _, body = patch.raw[:at].partition(b"\n\n")
    mail = email.message_from_bytes(head + b"\n\n", policy=email.policy.default)
    name, address = parseaddr(str(mail["From"] or ""))
    date = re.search(rb"^Date: (.*)$", head, re.MULTILINE)  # the parsed header has another form
    stands = {"Author": name, "Email": address, "Date": date[1].decode() if date else "",
              "Subject": str(mail["Subject"] or "")}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        git = Git(Path(folder))
        for option in ("--no-scissors", "--scissors"):
            try:
                said = git.raw("mailinfo", "-k", "--encoding=UTF-8", option, "message", "diff",
                               stdin=patch.raw)  # fmt: skip
            except GitError as error:
                yield f"git cannot read it: {error.stderr.strip()}"
                return
            lines = said.decode(errors="replace").split("\n")
            found = {key: value for key, _, value in (line.partition(": ") for line in lines)}
            found["message"] = (git.root / "message").read_text(errors="replace").strip()
            stands["message"] = body.decode(errors="replace").strip()
            other = [key for key, value in stands.items()
                     if found.get(key, "").split() != value.split()]  # fmt: skip
            if (git.root / "diff").read_bytes() != patch.raw[at:]:
                other.append("diff")
            if other:
                flag = " where scissors are on" if option == "--scissors" else ""
                yield f"git takes other words for {', '.join(other)}{flag}: see `git mailinfo`"
                return
