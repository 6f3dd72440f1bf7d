"""What a site may set: the tables with their defaults and meanings, and how its file is read."""
