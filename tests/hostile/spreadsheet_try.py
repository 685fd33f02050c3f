"""Opens tables with hostile texts in LibreOffice: `python -m tests.hostile.spreadsheet_try` (Debian: libreoffice-calc-nogui).

Each text would be a formula if a spreadsheet read it as it is. The CSV file of a table that holds all of them is opened with each of
the separators that LibreOffice offers, and has no cell with a formula then. The same texts in a CSV file that nothing made safe are
formulas: otherwise the texts prove nothing. Not part of `python -m tests.hostile`, since few machines have LibreOffice.
"""

import argparse
import csv
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from conformance.spark.export import export_table

FORMULAS = ("=1+1", "+1+1", "-1-1", "=cmd|'/c calc'!A0", '=HYPERLINK("http://192.0.2.1/x")', "=SUM(1;1)", "\uff1d1+1")
BEFORE = ("", "\t", "\r", "\n", "\r\n", "a;", "a|", "a\t", "a\n", "a\r", 'a"\n', 'a";', "'\n", " ", "a,", 'a",')
"""What stands before a formula in a text: separators, ends of lines and quotes that may end the field before it."""
SEPARATORS = {"comma": "44", "semicolon": "59", "tab": "9", "bar": "124", "all of them": "44/59/9/124"}
"""Name of a separator -> its token for LibreOffice's CSV filter."""


def count_formulas(table: Path, separator: str, work: Path) -> int:
    """Return the number of cells with a formula after LibreOffice has opened a CSV file and computed its formulas."""
    # Tokens: separator, text delimiter, UTF-8, first line, columns, language, quoted fields as text, detect numbers, save as shown,
    # export formulas, trim spaces, sheet, evaluate formulas.
    options = f"CSV:{separator},34,76,1,,0,false,true,false,false,false,0,true"
    words = [
        *("soffice", f"-env:UserInstallation={(work / 'profile').as_uri()}", "--headless", f"--infilter={options}"),
        *("--convert-to", "fods", "--outdir", str(work), str(table)),
    ]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, timeout=120)
    return (work / f"{table.stem}.fods").read_text("utf-8").count("table:formula=")


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if a table has a formula, or if texts that are not made safe have none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("reports/hostile-spreadsheet"))
    work: Path = parser.parse_args(arguments).work.resolve()
    if shutil.which("soffice") is None:
        parser.error("LibreOffice is not installed")
    texts = [f"{before}{formula}" for before in BEFORE for formula in FORMULAS]
    export_table(pa.table({"text": texts, "again": texts}), work, "safe")
    with (work / "raw.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([text, text] for text in texts)
    defects = 0
    for name, separator in SEPARATORS.items():
        safe = count_formulas(work / "safe.csv", separator, work)
        raw = count_formulas(work / "raw.csv", separator, work)
        print(f"separator {name}: {safe} formulas in a table, {raw} if the texts were not made safe")
        defects += safe > 0 or raw == 0
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
