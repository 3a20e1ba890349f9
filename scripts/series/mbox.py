"""The bytes of a patch file: where git sees a mail, its diff and its hunks begin."""

from __future__ import annotations

import re
from collections.abc import Iterator

HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
# The first line of a mail, as `git format-patch` writes it.
FROM = re.compile(rb"^From ([0-9a-f]{40}) Mon Sep 17 00:00:00 2001$", re.MULTILINE)
# Where `git am` cuts the message: at the first line that looks like the start of a patch.
# Source: `patchbreak` of git's mailinfo.
CUT = re.compile(rb"^(?:---\s*?$|--- \S|diff -|Index: )", re.MULTILINE)
# What `git mailsplit` takes for the first line of a mail: a time and a year at its end.
# Source: `is_from_line` of git's mailsplit.
_START = re.compile(rb"From (?=.{13}).*\d.\d\d:\d\d\s*\+?(\d+)[^:]*")
_LINE = (b" ", b"+", b"-", b"\\")


def fault_of_form(raw: bytes) -> str:
    """Why a file does not hold one mail of `git format-patch`, empty where it does."""
    starts = [n for n, line in enumerate(raw.split(b"\n"), 1)
              if (found := _START.fullmatch(line)) and int(found[1]) > 90]  # fmt: skip
    first = raw.partition(b"\n")[0]
    reason = ""
    if raw.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        reason = "it begins with a byte order mark"
    elif first.endswith(b"\r"):
        reason = "its lines end in CRLF"
    elif first.startswith((b"diff ", b"--- ", b"Index: ")):
        reason = "it is a bare diff, without a message"
    elif not FROM.match(raw):
        reason = "it does not begin as `git format-patch` begins one; another tool wrote it"
    if reason:
        return f"holds 0 mails of git: {reason}"
    if len(starts) > 1:
        line = raw.split(b"\n")[starts[1] - 1].decode(errors="replace")
        return f"holds {len(starts)} mails, not one: line {starts[1]} starts another: {line!r}"
    return ""


def miscounted(raw: bytes) -> Iterator[str]:
    """The hunks that do not hold the lines which their `@@` line counts, with its number."""
    lines = re.sub(rb"\n-- \n[^\n]*\n*\Z", b"\n", raw).rstrip(b"\n").split(b"\n")
    for at, line in enumerate(lines):
        head = HUNK.match(line)
        if not head:
            continue
        old = new = 0
        for held in lines[at + 1 :]:
            if held and not held.startswith(_LINE):
                break
            old += not held or held[:1] in b" -"
            new += not held or held[:1] in b" +"
        wanted = int(head[2] or 1), int(head[4] or 1)
        if (old, new) != wanted:
            yield (f"line {at + 1}, {head[0].decode()} counts {wanted[0]} lines before and"
                   f" {wanted[1]} after, and holds {old} and {new}")  # fmt: skip
