"""What this machine has, the kernels, the environment of the patched vLLM."""
