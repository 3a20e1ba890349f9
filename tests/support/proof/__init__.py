"""Which tests notice that a part of a patch is gone: run inside vLLM's environment by `prove`."""
