"""Look at an installation on a host, and say of each part whether it is fit, and the remedy."""
