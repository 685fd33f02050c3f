"""The documentation is true: its commands run, its links lead to existing pages, its generated parts are up to date."""
