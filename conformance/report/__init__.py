"""Reports for people: failure texts, sequence diagrams, Allure content, pages, and the conformance statement.

Renderers are functions without side effects, from a `cell_view.CellView` (a cell) or a `run_summary.RunSummary` (a run) to text.
Files are written by `site`, `tables_page`, `results_site.pages`, `rendering` (the style sheet), the modules `allure_*`, and
`terminal` (the step summary of GitHub Actions).
"""
