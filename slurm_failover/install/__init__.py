"""Write into Slurm's configuration what it needs to call us, and take exactly that out again."""
