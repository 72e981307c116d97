"""The whole product, as a client meets it."""
