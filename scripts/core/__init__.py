"""What all stand on: errors, paths, git, our own tools, HTML."""
