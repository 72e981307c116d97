"""`opc`, the command-line client."""
