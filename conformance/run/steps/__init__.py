"""What each step verb does: a module for each family of verbs, and the table of all of them in `table`."""
