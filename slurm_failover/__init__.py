"""slurm-failover: a GPU fault on Slurm no longer costs a training run.

Nodes judge, the controller decides, Slurm remembers.
"""

__version__ = "0.1.0"
