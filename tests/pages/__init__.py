"""The pages of reports in a real browser: see `SUITES=pages`."""
