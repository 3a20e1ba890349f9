"""The series onto other histories: a fork, the next release."""
