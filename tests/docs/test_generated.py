"""Documentation that cannot go stale: generated parts equal what the generator makes now, and links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_generated_parts_are_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "generate_docs.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, f"run scripts/generate_docs.py: {done.stdout}{done.stderr}"


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8")):
            if not target.startswith(("http://", "https://", "mailto:")):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
