"""Sources read the world and change nothing. What can not be read is unknown, never healthy."""
