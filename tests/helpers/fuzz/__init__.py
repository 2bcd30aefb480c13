"""A fuzzer over every reader: mutators (mutators.py), readers (readers*.py), and what runs them (campaign.py)."""
