"""Slurm, asked and told: the only code of ours that changes anything in it."""
