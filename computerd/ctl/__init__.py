"""`computerctl`, the administrator's program: keys, credentials, Unix users, and a report of the host's health."""
