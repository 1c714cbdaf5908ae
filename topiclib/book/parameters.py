"""The parameters of a notebook: their names, types and allowed values; where its outputs go.

The cell tagged `parameters` is the only place that says what a notebook accepts, in the form that
`papermill --help-notebook` shows as well:

    n_topics: int = 10  # topics T (at least 2)
    p_m: float = 0.15  # share of positions chosen for prediction (above 0, at most 1)
    optimizer: str = "sgd"  # optimizer (sgd | adam)

The last parenthesised clause of the comment is the rule: bounds (at least, above, at most, below) joined by
commas, or choices joined by bars. Without a clause every value of the type is allowed.
"""

import ast
import hashlib
import json
import math
import operator
import os
import re
import reprlib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]  # the repository: notebooks/, figures/ and runs/ are in it

LINE = re.compile(r"(\w+)\s*:\s*(\w+)\s*=\s*(.*?)\s*#\s*(.*)")  # name: type = value  # comment
TYPES = {"int": int, "float": float, "str": str, "bool": bool}
WANTED = {int: "an int", float: "a finite float", str: "a str", bool: "a bool"}
BOUNDS = {"at least": operator.ge, "above": operator.gt, "at most": operator.le, "below": operator.lt}


class Parameter(NamedTuple):
    """One line of a parameters cell; `rule` is the text of its last parenthesised clause, "" without one."""

    name: str
    type: type
    default: int | float | str | bool
    help: str
    rule: str


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one go: another process, a reader or a killed run never sees half of it."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read_cells(notebook: Path) -> list[dict]:
    """The code cells of a notebook. ValueError if the file is none, FileNotFoundError without a file."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{notebook.name} is not a notebook: it cannot be read as one") from None
    return [cell for cell in cells if cell["cell_type"] == "code"]


def read_record(figures: Path, notebook: str) -> dict:
    """What a run recorded in statements_NN.json beside its figures; empty without one. ValueError for a broken one."""
    path = figures / f"statements_{notebook[:2]}.json"
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {"parameters": dict(record["parameters"]), "statements": list(record["statements"])}
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} cannot be read: restore it with git checkout, or delete it") from None


def read_parameters(notebook: Path) -> dict[str, Parameter]:
    """The parameters of a notebook, in the order of its parameters cell, as papermill sees them.

    Read here rather than by `papermill.inspect_notebook`, which takes two seconds to import in every notebook.
    Raises ValueError if a line of that cell cannot be understood, or a default breaks its own rule.
    """
    tagged = [cell for cell in read_cells(notebook) if "parameters" in cell["metadata"].get("tags", [])]
    lines = "".join(tagged[0]["source"]).splitlines() if tagged else []
    read = [_read_line(line.strip(), notebook) for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return {parameter.name: parameter for parameter in read}


def _read_line(line: str, notebook: Path) -> Parameter:
    try:
        name, kind, literal, comment = LINE.fullmatch(line).groups()
        rule = ["", *re.findall(r"\(([^()]*)\)", comment)][-1]
        parameter = Parameter(name, TYPES[kind], ast.literal_eval(literal), comment, rule)
        _fits(parameter, parameter.default)  # can its rule be understood?
    except (AttributeError, KeyError, TypeError, ValueError, SyntaxError):
        form = f"name: {' | '.join(TYPES)} = literal  # comment (above 0, at most 1) or (sgd | adam)"
        raise ValueError(f"{notebook.name}: {line!r} is not of the form {form}") from None
    check_values({name: parameter}, {name: parameter.default})
    return parameter


def _fits(parameter: Parameter, value) -> bool:
    kind, rule = parameter.type, parameter.rule
    is_int = isinstance(value, int) and not isinstance(value, bool)
    if not (is_int if kind is int else isinstance(value, kind) or (kind is float and is_int)):
        return False
    if "|" in rule:
        return str(value) in [choice.strip() for choice in rule.split("|")]
    bounds = [part.strip().rpartition(" ") for part in rule.split(",") if rule]
    return (kind is not float or math.isfinite(value)) and all(BOUNDS[w](value, float(x)) for w, _, x in bounds)


def check_values(parameters: dict[str, Parameter], values: dict, notebook: str = "this notebook") -> None:
    """Check values by name against the parameters of `notebook` (a name for the message).

    Raises ValueError with one line that says the parameter, the value and what is allowed.
    """
    for name, value in values.items():
        if name not in parameters:
            raise ValueError(f"{name} is not a parameter of {notebook}: choose one of {', '.join(parameters)}")
        kind, rule = WANTED[parameters[name].type], parameters[name].rule
        if not _fits(parameters[name], value):
            shown = " ".join(reprlib.repr(value).split())
            raise ValueError(f"{name} = {shown} is not allowed: {f'{kind} ({rule})' if rule else kind} is wanted")


def check_parameters(notebook: str, namespace: dict) -> tuple[dict, Path]:
    """The values of the running notebook's parameters, checked, and the folder for its figures and tables (created).

    `notebook` is its name without .ipynb, `namespace` is `globals()`. Only the default values write to figures/.
    Raises ValueError for an unknown, missing, mistyped or impossible value, FileNotFoundError for no such notebook.
    """
    path = ROOT / "notebooks" / f"{notebook}.ipynb"
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: begin wants the name of the notebook it is in")
    parameters = read_parameters(path)
    check_values(parameters, dict.fromkeys(sorted(_injected_names(namespace) - set(parameters))), notebook)
    for name in parameters:
        if name not in namespace:
            raise ValueError(f"{name} has no value: run the cell tagged parameters of {notebook} first")
    values = {name: namespace[name] for name in parameters}
    check_values(parameters, values, notebook)

    changed = changed_values(notebook, parameters, values)
    chosen = values.get("figures_dir") or os.environ.get("TOPICLIB_FIGURES")
    folder = run_folder(notebook, changed) if changed else ROOT / "figures"
    if chosen:
        folder = Path(chosen).expanduser()
    elif changed:
        print(f"Not the default parameters: figures and tables go to {folder.relative_to(ROOT).as_posix()}")
    folder.mkdir(parents=True, exist_ok=True)
    return values, folder


def recorded_values(values: dict) -> dict:
    """The values that decide what a run measures: all but the folder for its figures."""
    return {name: value for name, value in values.items() if name != "figures_dir"}


def changed_values(notebook: str, parameters: dict[str, Parameter], values: dict) -> dict:
    """The values that differ from the run whose figures are committed; empty for that run itself.

    The committed run is the notebook's defaults and, beside its figures, the record statements_NN.json: a reader who
    edits and saves the parameters cell has new defaults, but must not overwrite the committed figures. A maintainer
    who means to change a default deletes that file.
    """
    values = recorded_values(values)
    defaults = {name: parameters[name].default for name in values}
    committed = read_record(ROOT / "figures", notebook).get("parameters", defaults)
    return {name: value for name, value in values.items() if committed.get(name) != value}


def run_folder(notebook: str, changed: dict) -> Path:
    """The folder of a run with other than the committed values, e.g. ROOT/runs/03_stage1/optimizer=adam,seed=1."""
    exact = ",".join(f"{name}={value}" for name, value in changed.items())
    readable = re.sub(r"[^A-Za-z0-9=.,_+-]", "_", exact)[:100]
    if readable != exact:  # shortened or replaced: the hash keeps two such runs apart
        readable += "-" + hashlib.sha256(exact.encode()).hexdigest()[:8]
    return ROOT / "runs" / notebook / readable


def _injected_names(namespace: dict) -> set[str]:
    # papermill only warns about a name that the notebook does not have. IPython keeps the cells that ran in `In`,
    # and the cell that papermill adds starts with "# Parameters"; the last one counts, earlier ones were replaced.
    cells = [cell for cell in namespace.get("In", []) if cell.startswith("# Parameters\n")]
    assignments = ast.parse(cells[-1]).body if cells else []
    return {node.targets[0].id for node in assignments if isinstance(node, ast.Assign)}
