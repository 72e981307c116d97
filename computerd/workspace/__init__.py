"""The port to the files of a session's workspace."""
