"""`python -m topiclib report`: what the notebooks' records say, as figures/statements.md and in the README.

Nothing is said here that a notebook has not said: sentences, verdicts and numbers come from the records that
`Book.finish` writes, links from the notebooks' outputs.
"""

import json
import os
import re
from pathlib import Path
from typing import NamedTuple

import click

from .parameters import ROOT, write_whole

PLACES = ("headlines", "slips")  # of the README that are written here, between <!-- NAME --> and <!-- /NAME -->


class Told(NamedTuple):
    """A statement as a notebook recorded it, and the cell that printed it: its id and its execution count."""

    notebook: str
    statement: dict
    cell: str
    count: int


def write() -> list[str]:
    """Write figures/statements.md and the README's places; return what is wrong, a line each."""
    texts, wrong = _render()
    for path, text in texts.items():
        write_whole(path, text.encode())
    return wrong


def check() -> list[str]:
    """Return what is wrong or out of date, a line each; write nothing."""
    texts, wrong = _render()
    stale = [path for path, text in texts.items() if not path.is_file() or path.read_text("utf-8") != text]
    return wrong + [f"{path.relative_to(ROOT)} is out of date: run python -m topiclib report" for path in stale]


def read() -> dict[str, list[Told]]:
    """The statements of every notebook, in order. ClickException, one line, for a record that is missing or unread."""
    told = {}
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        name, record = notebook.stem, ROOT / "figures" / f"statements_{notebook.stem[:2]}.json"
        path = record
        try:
            statements = json.loads(record.read_text("utf-8"))["statements"]
            path = notebook
            cells = [cell for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
            told[name] = [Told(name, one, *_cell(cells, one)) for one in statements]
        except (OSError, ValueError, KeyError, TypeError) as error:
            what = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
            again = f"restore it with git checkout, or run python -m topiclib run {name[:2]}"
            raise click.ClickException(f"{path.relative_to(ROOT)} {what}: {again}") from None
    return told


def _cell(cells: list[dict], statement: dict) -> tuple[str, int]:
    sentence = " ".join(_sentence(statement).split())
    for cell in cells:
        printed = " ".join("".join("".join(output.get("text", "")) for output in cell["outputs"]).split())
        if f"{sentence} [" in printed:
            return cell["id"], cell["execution_count"]
    return "", 0


def _render() -> tuple[dict[Path, str], list[str]]:
    """The text that each file should have, and what is wrong, a line each."""
    told, readme = read(), ROOT / "README.md"
    everything = [one for statements in told.values() for one in statements]
    wrong = []
    for one in everything:
        where = f"{one.notebook[:2]} {_sentence(one.statement)}"
        wrong += [] if one.statement["as_expected"] else [f"not as expected: {where}"]
        wrong += [] if one.cell else [f"no cell prints it: {where}: run python -m topiclib run {one.notebook[:2]}"]
        missing = [name for name in one.statement["figures"] if not _picture(name).is_file()]
        again = f"run python -m topiclib run {one.notebook[:2]}"
        wrong += [f"figures/{_picture(name).name} is missing: {again}" for name in missing]
    lists = {
        "headlines": [_headline(one) for one in everything if one.statement["headline"]],
        "slips": [_slip(one) for one in everything if one.statement["instead"]],
    }
    text = readme.read_text("utf-8") if readme.is_file() else ""
    for name in PLACES:
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise click.ClickException(f"README.md has no place for {name}: {begin} and {end} are wanted, once each")
        before, rest = text.split(begin)
        text = "\n".join([before + begin, *lists[name], end + rest.split(end)[1]])
    return {readme: text, ROOT / "figures" / "statements.md": _everything(told)}, wrong


def _everything(told: dict[str, list[Told]]) -> str:
    verdicts = [one.statement["verdict"].partition(":")[0] for statements in told.values() for one in statements]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
    checks = sum(len(one.statement["checks"]) for statements in told.values() for one in statements)
    lines = ["# Statements", "", f"{len(verdicts)} statements on {checks} checks: {counts}. Written by the notebooks."]
    for name, statements in told.items():
        lines += ["", f"## [{name}](../notebooks/{name}.ipynb)"]
        for one in statements:
            said, verdict = _escape(_sentence(one.statement)), _escape(one.statement["verdict"])
            lines += ["", f"**{said}** *{verdict}* {_links(one, ROOT / 'figures')}"]
            lines += ["", f"Instead: {_escape(one.statement['instead'])}"] if one.statement["instead"] else []
            lines += ["", "| check | measured | expected |", "|---|---|---|"]
            for row in one.statement["checks"]:
                title = row["name"] if row["kind"] == "check" else f"{row['kind']}: {row['name']}"
                lines.append(f"| {_escape(title)} | {row['measured']} | {row['expected']} |")
    return "\n".join(lines) + "\n"


def _headline(one: Told) -> str:
    return f"* **{one.statement['paper']}** {one.statement['says']} *{one.statement['verdict']}* {_links(one, ROOT)}"


def _slip(one: Told) -> str:
    return f"* **{one.statement['paper']}** {one.statement['instead']} {_links(one, ROOT)}"


def _links(one: Told, folder: Path) -> str:
    """Links to the cell and the figures of a statement, as seen from a folder."""
    cell = os.path.relpath(ROOT / "notebooks" / f"{one.notebook}.ipynb", folder)
    links = [f"[{one.notebook[:2]}\N{NO-BREAK SPACE}[{one.count}]]({cell}#cell-id={one.cell})"]
    for name in one.statement["figures"]:
        links.append(f"[{name.partition('_')[0]}]({os.path.relpath(_picture(name), folder)})")
    return ", ".join(links)


def _picture(name: str) -> Path:
    return ROOT / "figures" / (f"{name}.md" if name.startswith("tab") else f"{name}.png")


def _sentence(statement: dict) -> str:
    return f"{statement['paper']} · {statement['says']}"


def _escape(text: str) -> str:
    return re.sub(r"([|*<])", r"\\\1", text)
