"""Carry an ordered patch series on a pinned vLLM: `python3 -m scripts VERB`.

core         what all stand on: errors, paths, git, our own tools, HTML
release      the pinned release: its files and hashes (pin), the index, its source, another (lookup)
series       patches as data (mails), apply and export (stack), the rules (lint), DIST (dist)
environment  what this machine has (machine, doctor), the plan (plans), build/venv (build); kernels
             compiled (native), put there (kernels), loaded (loading); later releases (later)
carry        the series onto other histories: pick and how its conflicts are told (pick), roll
suites       which tests run (runner; upstream, but for those that tests/upstream/suites.json leaves
             out), how they end, baseline, EACH=1, the page (report), the pipeline
bench        what is measured, and the figures (measures), how (rounds, probes), pages; what later
             releases answer (behaviour), the table (upgrade), what roll makes of it (needed)
proof        each hunk taken away (hunks), who notices (verdicts, witnesses); CHANGED (changed)
verbs        what each verb does and prints; above it `__main__`, the table of verbs, and `options`
"""
