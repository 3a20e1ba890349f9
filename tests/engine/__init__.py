"""The series in real engines and servers on tiny checkpoints."""
