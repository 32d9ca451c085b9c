"""Compares Lockstep with other libraries and with what TCP allows: A, B, A, B, in one run. `./run bench` starts it."""
