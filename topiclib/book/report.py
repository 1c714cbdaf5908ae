"""`python -m topiclib report`: what the notebooks' records say, as figures/statements.md and in the README.

Nothing is said here that a notebook has not said: sentences, verdicts and numbers come from the records that
`Book.finish` writes, links from the notebooks' outputs.
"""

import json
import os
import re
from collections import Counter
from pathlib import Path

import click

from .parameters import ROOT, write_whole


def write() -> list[str]:
    """Write figures/statements.md and the README's lists; return what is wrong, a line each."""
    texts, wrong = _render()
    for path, text in texts.items():
        write_whole(path, text.encode())
    return wrong


def check() -> list[str]:
    """Return what is wrong or out of date, a line each; write nothing."""
    texts, wrong = _render()
    stale = [path for path, text in texts.items() if not path.is_file() or path.read_text("utf-8") != text]
    return wrong + [f"{path.relative_to(ROOT)} is out of date: run python -m topiclib report" for path in stale]


def read() -> list[dict]:
    """The statements of all notebooks, in order, each with its "notebook" and the "cell" and "count" that printed it.

    ClickException, one line, for a record or a notebook that is missing or cannot be read.
    """
    told = []
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        path = ROOT / "figures" / f"statements_{notebook.stem[:2]}.json"
        try:
            statements = json.loads(path.read_text("utf-8"))["statements"]
            path = notebook
            cells = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
            told += [one | {"notebook": notebook.stem} | _cell(cells, one) for one in statements]
        except (OSError, ValueError, KeyError, TypeError) as error:
            what = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
            again = f"restore it with git checkout, or run python -m topiclib run {notebook.stem[:2]}"
            raise click.ClickException(f"{path.relative_to(ROOT)} {what}: {again}") from None
    return told


def _cell(cells: list[dict], statement: dict) -> dict:
    sentence = " ".join(f"{statement['paper']} · {statement['says']} [".split())
    for cell in cells:
        if sentence in " ".join("".join("".join(output.get("text", "")) for output in cell["outputs"]).split()):
            return {"cell": cell["id"], "count": cell["execution_count"]}
    return {"cell": "", "count": 0}


def _render() -> tuple[dict[Path, str], list[str]]:
    """The text that each file should have, and what is wrong, a line each."""
    told, wrong = read(), []
    for one in told:
        where = f"{one['paper']} · {one['says']}: run python -m topiclib run {one['notebook'][:2]}"
        wrong += [] if one["as_expected"] else [f"not as expected: {where}"]
        wrong += [] if one["cell"] else [f"no cell prints it: {where}"]
        wrong += [f"{path.name} is missing: {where}" for path in map(_picture, one["figures"]) if not path.is_file()]
    lists = {
        "headlines": [_headline(x) for x in told if x["headline"]],
        "slips": [_slip(x) for x in told if x["instead"]],
    }
    readme = ROOT / "README.md"
    text = readme.read_text("utf-8") if readme.is_file() else ""
    for name, items in lists.items():
        parts = re.split(f"(<!-- /?{name} -->)", text)
        if parts[1::2] != [f"<!-- {name} -->", f"<!-- /{name} -->"]:
            raise click.ClickException(f"README.md has no place for {name}: {parts[1::2]} is there, the two marks once")
        parts[2] = "\n".join(["", *(f"* {item}" for item in items), ""])
        text = "".join(parts)
    return {readme: text, ROOT / "figures" / "statements.md": _everything(told)}, wrong


def _everything(told: list[dict]) -> str:
    counts = Counter(one["verdict"].partition(":")[0] for one in told)
    verdicts = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    lines = [
        "# Statements",
        "",
        f"{len(told)} statements, {sum(len(one['checks']) for one in told)} checks: {verdicts}.",
    ]
    for one, before in zip(told, [None, *told], strict=False):
        if before is None or one["notebook"] != before["notebook"]:
            lines += ["", f"## [{one['notebook']}](../notebooks/{one['notebook']}.ipynb)"]
        said = _escape(f"**{one['paper']} · {one['says']}** *{one['verdict']}*")
        lines += ["", f"{said} {_links(one, ROOT / 'figures')}", ""]
        lines += [f"Instead: {_escape(one['instead'])}", ""] if one["instead"] else []
        lines += ["| check | measured | expected |", "|---|---|---|"]
        for row in one["checks"]:
            title = row["name"] if row["kind"] == "check" else f"{row['kind']}: {row['name']}"
            lines.append(f"| {_escape(title)} | {row['measured']} | {row['expected']} |")
    return "\n".join(lines) + "\n"


def _headline(one: dict) -> str:
    verdict = "" if one["verdict"] == "holds" else f" *It {_sentence(one['verdict'])}*"
    return f"**{one['paper']}** {_sentence(one['says'])}{verdict} {_links(one, ROOT)}"


def _slip(one: dict) -> str:
    return f"**{one['paper']}** *{_sentence(one['says'])}* {_sentence(one['instead'])} {_links(one, ROOT)}"


def _sentence(text: str) -> str:
    return text.rstrip(".") + "."


def _links(one: dict, folder: Path) -> str:
    """Links to the cell and the figures of a statement, as seen from a folder."""
    cell = os.path.relpath(ROOT / "notebooks" / f"{one['notebook']}.ipynb", folder)
    links = [f"[{one['notebook'][:2]}[{one['count']}]]({cell}#cell-id={one['cell']})"]
    links += [f"[{name.partition('_')[0]}]({os.path.relpath(_picture(name), folder)})" for name in one["figures"]]
    return ", ".join(links)


def _picture(name: str) -> Path:
    return ROOT / "figures" / (f"{name}.md" if name.startswith("tab") else f"{name}.png")


def _escape(text: str) -> str:
    return re.sub(r"([|<])", r"\\\1", text)
