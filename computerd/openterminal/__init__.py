"""The second front door, for clients of the Open Terminal API."""
