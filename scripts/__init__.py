"""Carry an ordered patch series on a pinned vLLM: `python3 -m scripts VERB`.

core         what all stand on: errors, paths, git, our own tools, HTML
release      the pinned release: its files and hashes (pin), the index, its source, another (lookup)
series       patches as data (mails), apply and export (stack), the rules (lint), DIST (dist)
environment  what this machine has (machine, doctor), the plan (plans), kernels (native), build/venv
carry        the series onto other histories: pick, roll, how a conflict is told (threeway)
suites       which tests run (runner, upstream), how they end, baseline, EACH=1, reports, pipeline
bench        what is measured, and the figures (measures), how (rounds, probes), plots, pages
proof        each hunk taken away (hunks), who notices (verdicts, witnesses)
verbs        what each verb does and prints; above it `__main__`, the table of verbs, and `options`
"""
