"""Measure base against patched: probes, samples, figures, plots, pages."""
