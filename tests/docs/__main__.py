"""Renews the outputs that the documents show: ``python -m tests.docs``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from placement.testing import serve
from tests.cli.warm import warm
from tests.docs.documents import GUIDES, Runner, derived, is_other


def main() -> None:
    argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__).parse_args()
    with serve() as address, warm() as command, tempfile.TemporaryDirectory() as folder:
        runner = Runner(address, Path(folder), command)
        for file in GUIDES:
            lines = file.read_text().splitlines()
            # From the end, so that earlier line numbers stay right.
            for source, block in reversed(list(derived(file))):
                text = runner.renewed(source, block)
                if not block.text.strip() or is_other(block, text):
                    print(f"renewed {block}")
                    end = block.line + len(block.text.splitlines())
                    lines[block.line : end] = text.splitlines()
            file.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
