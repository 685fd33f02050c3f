"""Testing the tester: which cells a defect is tried in, the table, and its gates."""
