"""What a person sees in a terminal, and in a log where there is none."""
