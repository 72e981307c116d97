"""What the Computer API, version 1, is: methods, fields, limits, errors, events, objects and close codes, as data."""
