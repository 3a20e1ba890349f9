"""One module per patch: it fails as soon as any hunk of that patch is missing."""
