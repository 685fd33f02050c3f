"""The checks of one scenario: a function for each expectation verb, in a module for each family."""
