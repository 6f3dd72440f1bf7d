"""The node's side: look at the evidence, judge it, drain, and leave word for the controller."""
