"""The documentation is true: every command in it is run, every link in it leads somewhere."""
