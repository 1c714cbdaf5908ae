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
import difflib
import hashlib
import json
import math
import operator
import os
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]  # the repository: notebooks/, figures/ and runs/ are in it

LINE = re.compile(r"(\w+)\s*:\s*(\w+)\s*=\s*(.*?)\s*#\s*(.*)")  # name: type = value  # comment
TYPES = {"int": int, "float": float, "str": str, "bool": bool}
BOUNDS = {"at least": operator.ge, "above": operator.gt, "at most": operator.le, "below": operator.lt}


class Parameter(NamedTuple):
    """One line of a parameters cell; `rule` is the text of its last parenthesised clause, "" without one.

    choices: the allowed values of a rule such as `sgd | adam`; bounds: (comparison, bound) for each part of a rule such
    as `above 0, at most 1`; each is empty for any other rule.
    """

    name: str
    type: type
    default: int | float | str | bool
    help: str
    rule: str = ""
    choices: tuple = ()
    bounds: tuple = ()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one go: another process, a reader or a killed run never sees half of it."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read_parameters(notebook: Path) -> dict[str, Parameter]:
    """The parameters of a notebook, in the order of its parameters cell, as papermill sees them.

    Read here rather than by `papermill.inspect_notebook`, which takes two seconds to import in every notebook.
    Raises ValueError if a line of that cell cannot be understood, or a default breaks its own rule.
    """
    try:
        cells = json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{Path(notebook).name} is not a notebook: it cannot be read as one") from None
    tagged = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    lines = "".join(tagged[0]["source"]).splitlines() if tagged else []
    read = [_read_line(line, notebook) for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return {parameter.name: parameter for parameter in read}


def _read_line(line: str, notebook: Path) -> Parameter:
    try:
        name, type_name, literal, comment = LINE.fullmatch(line.strip()).groups()
        kind, rule, choices, bounds = TYPES[type_name], ["", *re.findall(r"\(([^()]*)\)", comment)][-1], (), ()
        if rule and "|" in rule:
            choices = tuple({int: int, float: float, str: str}[kind](choice.strip()) for choice in rule.split("|"))
        elif rule:
            parts = [part.strip().rpartition(" ") for part in rule.split(",")]
            bounds = tuple((BOUNDS[words], {int: float, float: float}[kind](number)) for words, _, number in parts)
        parameter = Parameter(name, kind, ast.literal_eval(literal), comment, rule, choices, bounds)
    except (AttributeError, KeyError, ValueError, SyntaxError):
        form = f"name: {' | '.join(TYPES)} = literal  # comment (above 0, at most 1) or (sgd | adam)"
        raise ValueError(f"{Path(notebook).name}: {line.strip()!r} is not of the form {form}") from None
    check_values({name: parameter}, {name: parameter.default}, "its own parameters cell")
    return parameter


def check_values(parameters: dict[str, Parameter], values: dict, notebook: str = "this notebook") -> None:
    """Check values by name against the parameters of `notebook` (a name for the message).

    Raises ValueError with one line that says the parameter, the value and what is allowed.
    """
    for name, value in values.items():
        if name not in parameters:
            near = _did_you_mean(name, list(parameters))
            raise ValueError(f"{name} is not a parameter of {notebook}: choose one of {', '.join(parameters)}{near}")
        parameter = parameters[name]
        kind, choices, rule = parameter.type, parameter.choices, parameter.rule
        allowed = f"one of {', '.join(map(str, choices))}" if choices else rule
        shown = f"{name} = {_one_line(value)}"
        is_int = isinstance(value, int) and not isinstance(value, bool)
        fits = is_int if kind is int else isinstance(value, kind) or (kind is float and is_int)
        if not fits:
            wanted = ", ".join(filter(None, [f"{_article(kind.__name__)} is wanted", allowed]))
            raise ValueError(f"{shown} is {_article(type(value).__name__)}: {wanted}")
        if kind is float and not math.isfinite(value):
            raise ValueError(f"{shown}: must be {', '.join(filter(None, ['a finite number', allowed]))}")
        if choices and value not in choices:
            near = _did_you_mean(repr(value), list(map(repr, choices)))
            raise ValueError(f"{shown} is not allowed: choose {allowed}{near}")
        if not all(holds(value, bound) for holds, bound in parameter.bounds):
            raise ValueError(f"{shown}: must be {rule}")


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
    if chosen:
        folder = Path(chosen).expanduser()
    elif not changed:
        folder = ROOT / "figures"
    else:
        folder = run_folder(notebook, changed)
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
    committed = {name: parameters[name].default for name in values}
    record = ROOT / "figures" / f"statements_{notebook[:2]}.json"
    if record.is_file():
        try:
            committed = dict(json.loads(record.read_text(encoding="utf-8"))["parameters"])
        except (ValueError, KeyError, TypeError):
            how = "restore it with git checkout, or delete it if you mean to change a default"
            raise ValueError(f"figures/{record.name} cannot be read: {how}") from None
    if values == committed:
        return {}
    return {name: value for name, value in values.items() if committed.get(name, not value) != value} or values


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


def _did_you_mean(word: str, words: list[str]) -> str:
    near = difflib.get_close_matches(word, words, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _article(type_name: str) -> str:
    return f"{'an' if type_name[0] in 'aeiou' else 'a'} {type_name}"


def _one_line(value) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
