"""The pinned release: its files, its source, how another is looked up."""
