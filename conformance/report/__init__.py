"""What people open: failure text, sequence diagrams, Allure content, the pages of a run, the conformance statement.

Renderers are pure functions from a `cell.Material` (a cell) or a `ledger.RunBook` (a run) to text; `site` and
`allure_content` alone write anything.
"""
