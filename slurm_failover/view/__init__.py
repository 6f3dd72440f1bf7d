"""What users see of jobs and nodes."""
