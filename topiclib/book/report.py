"""`python -m topiclib report`: what the notebooks' records say, as figures/statements.md and in the README.

Nothing is said here that a notebook has not said: sentences, verdicts and numbers come from the records that
`Book.finish` writes, links from the notebooks' outputs.
"""

import os
import re
from collections import Counter
from pathlib import Path

from .parameters import ROOT, read_cells, read_record, write_whole


def update(check: bool = False) -> list[str]:
    """Write figures/statements.md and the README's lists; return what is wrong, a line each.

    check: write nothing; what is out of date is wrong, too. ValueError, one line, before anything is written, for a
    record, a notebook or a README that is missing or cannot be read.
    """
    told, wrong = [], []
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        record, cells = read_record(ROOT / "figures", notebook.stem), read_cells(notebook)
        if not record:
            raise ValueError(f"{notebook.stem} has no record in figures/: python -m topiclib run {notebook.stem[:2]}")
        told += [one | {"notebook": notebook.stem} | _cell(cells, one) for one in record["statements"]]
    for one in told:
        where = f"{one['paper']} · {one['says']}: run python -m topiclib run {one['notebook'][:2]}"
        wrong += [] if one["as_expected"] else [f"not as expected: {where}"]
        wrong += [] if one["cell"] else [f"no cell prints it: {where}"]
        wrong += [f"{path.name} is missing: {where}" for path in map(_picture, one["figures"]) if not path.is_file()]
    for path, text in (ROOT / "README.md", _readme(told)), (ROOT / "figures" / "statements.md", _everything(told)):
        if not check:
            write_whole(path, text.encode())
        elif not path.is_file() or path.read_text("utf-8") != text:
            wrong.append(f"{path.relative_to(ROOT)} is out of date: run python -m topiclib report")
    return wrong


def _cell(cells: list[dict], statement: dict) -> dict:
    """The "cell" that printed a statement and its "count"."""
    sentence = " ".join(f"{statement['paper']} · {statement['says']} [".split())
    for cell in cells:
        if sentence in " ".join("".join("".join(output.get("text", "")) for output in cell["outputs"]).split()):
            return {"cell": cell["id"], "count": cell["execution_count"]}
    return {"cell": "", "count": 0}


def _readme(told: list[dict]) -> str:
    """The README, its two lists filled."""
    holding = [(x, [f"*Only: {x['only']}*"] if x["only"] else []) for x in told if x["headline"]]
    headlines = [_item(x, x["says"], *only) for x, only in holding]
    slips = [_item(x, f"*{x['says']}*", x["instead"]) for x in told if x["instead"]]
    text = (ROOT / "README.md").read_text("utf-8")
    for name, items in {"headlines": headlines, "slips": slips}.items():
        parts = re.split(f"(<!-- /?{name} -->)", text)
        if parts[1::2] != [f"<!-- {name} -->", f"<!-- /{name} -->"]:
            raise ValueError(f"README.md has no place for {name}: {parts[1::2]} is there, the two marks once")
        parts[2] = "\n".join(["", *(f"* {item}" for item in items), ""])
        text = "".join(parts)
    return text


def _everything(told: list[dict]) -> str:
    counts = Counter(one["verdict"].partition(":")[0] for one in told)
    verdicts = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    lines = ["# Statements", "", f"{len(told)} statements, {sum(len(x['checks']) for x in told)} checks: {verdicts}."]
    for i, one in enumerate(told):
        if i == 0 or one["notebook"] != told[i - 1]["notebook"]:
            lines += ["", f"## [{one['notebook']}](../notebooks/{one['notebook']}.ipynb)"]
        said = _escape(f"**{one['paper']} · {one['says']}** *{one['verdict']}*")
        lines += ["", f"{said} {_links(one, ROOT / 'figures')}", ""]
        lines += [f"Instead: {_escape(one['instead'])}", ""] if one["instead"] else []
        lines += ["| check | measured | expected |", "|---|---|---|"]
        for row in one["checks"]:
            title = row["name"] if row["kind"] == "check" else f"{row['kind']}: {row['name']}"
            lines.append(f"| {_escape(title)} | {row['measured']} | {row['expected']} |")
    return "\n".join(lines) + "\n"


def _item(one: dict, *sentences: str) -> str:
    said = " ".join(f"{text.rstrip('.*')}.{'*' * text.endswith('*')}" for text in sentences)
    return f"**{one['paper']}** {said} {_links(one, ROOT)}"


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
