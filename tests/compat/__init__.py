"""What earlier versions wrote goes on working: a folder for each of them, and a test that uses it as their users do."""
