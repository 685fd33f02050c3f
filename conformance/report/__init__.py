"""What people open: Allure attachments, sequence diagrams, the conformance statement, pages."""
