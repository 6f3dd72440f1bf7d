"""The controller's side: hold a flagged job that ended, decide once, act, and record."""
