"""The port to the agent that runs a session's turns."""
