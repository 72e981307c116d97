"""Events in order, durable, in SQLite; and which credentials were issued and revoked."""
