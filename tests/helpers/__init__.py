"""What several test files share: processes, records, small specifications, federations, places."""
