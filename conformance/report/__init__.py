"""Reports for people: failure texts, sequence diagrams, Allure content, pages, and the conformance statement.

Renderers are functions without side effects, from a `cell_view.CellView` (a cell) or a `run_summary.RunSummary` (a run)
to text. Files are written by `site`, `tables_page`, `rendering` (the style sheet), and the modules `allure_*`.
"""
