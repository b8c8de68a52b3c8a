"""Which paths matter."""
