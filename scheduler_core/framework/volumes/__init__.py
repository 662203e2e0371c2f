"""Claims and volumes, in the form that the volume plugins read."""
