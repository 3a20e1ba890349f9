"""Take each hunk away by itself: who notices?"""
