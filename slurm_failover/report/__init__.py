"""The report: one page that needs nothing from anywhere, no script, no font, no network. Pure.

figures.py counts, plot.py draws one chart as SVG, page.py puts charts, tables and definitions on
the page. The page is built as a tree of elements, so no text of a user can be taken for markup.
"""

from slurm_failover.report.figures import Chart, Series, Summary, draw_up, sum_up
from slurm_failover.report.page import make_page

__all__ = ["Chart", "Series", "Summary", "draw_up", "make_page", "sum_up"]
