"""The checks of every scenario, always on unless waived."""
