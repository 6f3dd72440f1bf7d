"""The report in a real browser: laid out wide and narrow, with its style, and without a script."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from past_site import EVIL, a_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

FRAME = """<!DOCTYPE html><title>not loaded</title>
<iframe id="page" src="report.html" style="width:{width}px;height:3000px;border:0"></iframe>
<script>
page.onload = () => {{
  const seen = page.contentDocument, main = seen.querySelector("main");
  document.title = [
    seen.documentElement.scrollWidth,
    page.contentWindow.getComputedStyle(main).maxWidth,
    Math.round(seen.querySelector("svg").getBoundingClientRect().width),
    seen.scripts.length,
    seen.images.length,
  ].join(" ");
}};
</script>
"""


def browse(folder: Path, page: str) -> tuple[str, str]:
    """The page as the browser has it at the end, and what it said of it."""
    own = f"--user-data-dir={folder / 'profile'}"
    quiet = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
    logs = ("--enable-logging=stderr", "--allow-file-access-from-files")
    done = subprocess.run(
        [str(CHROMIUM), *quiet, *logs, own, "--dump-dom", (folder / page).as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_fits_and_has_its_style(width: int, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(a_page())
    (tmp_path / "frame.html").write_text(FRAME.format(width=width))
    shown, said = browse(tmp_path, "frame.html")
    found = re.search(r"<title>(.*?)</title>", shown)
    assert found is not None
    across, limit, plot, scripts, images = found[1].split()
    assert int(across) <= width
    assert limit == "1200px"
    assert 300 <= int(plot) <= width
    assert (scripts, images) == ("0", "0")
    assert "Content Security Policy" not in said


def test_what_a_user_wrote_is_text_in_the_browser_too(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(a_page())
    shown, _ = browse(tmp_path, "report.html")
    assert EVIL.replace("<", "&lt;").replace(">", "&gt;") in shown
    assert "<script" not in shown
