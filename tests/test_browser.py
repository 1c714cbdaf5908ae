"""Notebooks as a reader sees them: JupyterLab in Chromium, run from its menu, then looked at in the page.

Tiny notebooks that are wrong in every way that is looked for show that the checks can fail.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from topiclib.book import parameters
from topiclib.book.run import KERNELSPEC

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium (Debian's package: chromium)"),
]

NOTEBOOKS = parameters.ROOT / "notebooks"
PICTURES = parameters.ROOT / "runs" / "browser"  # of pages that failed
CELL = ".jp-Notebook .jp-Cell"
CONTROL = f"{CELL} :is(.widget-slider, .widget-toggle-buttons)"
ERROR = ':is([data-mime-type$=".error"], [data-mime-type$=".stderr"])'  # JupyterLab shows errors as the latter

# What there is to see of each cell. A $ or \ outside formulas and code is a formula that was left raw.
READ = r"""(cells, ERROR) => cells.map(cell => ({
    prompt: cell.querySelector(".jp-InputPrompt").textContent,
    error: cell.querySelector(ERROR)?.textContent,
    widths: [...cell.querySelectorAll("img")].map(image => image.naturalWidth),
    formulas: cell.querySelectorAll("mjx-container").length,
    not_understood: [...cell.querySelectorAll("mjx-container :is(merror, mtext[mathcolor=red])")]
        .map(part => part.textContent),
    text: [...cell.querySelectorAll(".jp-MarkdownOutput, .jp-RenderedLatex")].map(shown => {
        const copy = shown.cloneNode(true);
        copy.querySelectorAll("mjx-container, code").forEach(part => part.remove());
        return copy.textContent;
    }).join("\n"),
}))"""
# Every code cell has its number, or something happened after which it will not get one.
STOPPED = r"""ERROR => document.querySelector(`.jp-Dialog, ${ERROR}`) !== null ||
    [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].every(prompt => /\d/.test(prompt.textContent))"""

DRAW = """
from IPython.display import display
from PIL import Image

display(Image.new("L", (50, 50)))
"""
SLIDERS = """
import ipywidgets as widgets

sliders = {name: widgets.IntSlider(description=name) for name in ("moving", "dead")}
picture = widgets.interactive_output(lambda moving, dead: display(Image.new("L", (50, 50), moving)), sliders)
display(*sliders.values(), picture)
"""
FIGURE = new_output("display_data", {"image/png": ""})
WRONG = new_notebook(
    cells=[
        new_markdown_cell("Nothing wrong: $\\frac12$, `$HOME`, and\n\n$$\\sum_i x_i$$"),
        new_code_cell(DRAW.strip(), outputs=[FIGURE]),
        new_markdown_cell("Not closed: $\\frac12"),
        new_markdown_cell("No such command: $\\topics$"),
        new_markdown_cell("No denominator: $\\frac1$"),
        new_markdown_cell("Indented, which makes it code:\n\n    $x$"),
        new_code_cell("pass  # the figure is gone", outputs=[FIGURE]),
        new_code_cell('display({"image/png": "AAAA"}, raw=True)'),
        new_code_cell("import warnings\n\nwarnings.warn('careful')"),
        new_code_cell(SLIDERS.strip()),
    ]
)
FOUND = [
    "cell 3: a raw formula: $\\frac12",
    "cell 4: not understood: \\topics",
    "cell 5: not understood: \\frac1",
    "cell 6: 0 formulas, expected 1",
    "cell 7: 0 figures, expected 1",
    "cell 8: 0 figures, expected 1",
    "cell 9: warnings.warn('careful')",
]
STOPS = {
    "raises": ("raise ValueError('on purpose')", "cell 1: ValueError: on purpose"),
    "dies": ("import os\n\nos._exit(1)", "a dialog: Kernel Restarting"),
}


def stopping(name):
    return new_notebook(cells=[new_code_cell(STOPS[name][0]), new_code_cell("print('never reached')")])


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab on a copy of the project, with settings of its own: (address, token)."""
    root, own = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("jupyter")
    shutil.copy(parameters.ROOT / "README.md", root)
    (root / "notebooks").mkdir()
    notebooks = {path.stem: nbformat.read(path, as_version=4) for path in NOTEBOOKS.glob("*.ipynb")}
    for name, notebook in {**notebooks, "wrong": WRONG, **{name: stopping(name) for name in STOPS}}.items():
        copy = nbformat.from_dict(notebook)  # without outputs: what is seen later comes from the run
        copy.metadata.kernelspec = KERNELSPEC
        for cell in copy.cells:
            if cell.cell_type == "code":
                cell.update(outputs=[], execution_count=None)
        nbformat.write(copy, root / "notebooks" / f"{name}.ipynb")

    environment = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    environment |= {f"JUPYTER_{kind}_DIR": str(own / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    environment["IPYTHONDIR"] = str(own / "ipython")
    settings = own / "CONFIG" / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')  # nor ask whether to
    options = ["--ip=127.0.0.1", "--no-browser", "--allow-root"]
    # Should the tests be killed, the server is left alone, and ends by itself.
    options += ["--MappingKernelManager.cull_idle_timeout=600", "--ServerApp.shutdown_no_activity_timeout=600"]
    with open(own / "log", "w") as log:
        command, streams = [sys.executable, "-m", "jupyterlab", *options], {"stdout": log, "stderr": log}
        # In a session of its own: Ctrl-C is for the tests, which then end the server.
        streams |= {"stdin": subprocess.DEVNULL, "start_new_session": True}
        server = subprocess.Popen(command, cwd=root, env=environment, **streams)
    try:
        record = own / "RUNTIME" / f"jpserver-{server.pid}.json"  # written when it listens: its port, its token
        deadline = time.monotonic() + 120
        while not record.is_file() and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert record.is_file(), f"expected JupyterLab to start, got:\n{(own / 'log').read_text()[-3000:]}"
        seen = json.loads(record.read_text())
        yield seen["url"], seen["token"]
    finally:
        server.terminate()  # and its kernels with it
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Chromium without a network and without the user's files."""
    options = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    environment = os.environ | {"HOME": str(tmp_path_factory.mktemp("home"))}
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options, env=environment)
        yield browser
        browser.close()


@contextmanager
def opened(browser, lab, name):
    """The page of a notebook, its kernel ready. A failed check leaves a picture of it in runs/browser/."""
    (url, token), picture = lab, PICTURES / f"{name}.png"
    picture.unlink(missing_ok=True)
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(120_000)
    try:
        page.goto(f"{url}lab/tree/notebooks/{name}.ipynb?reset&token={token}")
        page.get_by_text(f"{KERNELSPEC['display_name']} | Idle").wait_for()
        yield page
    except Exception as error:
        page.set_viewport_size({"width": 1400, "height": 16_000})  # all of the notebook, or most
        page.evaluate("document.querySelector('.jp-WindowedPanel-outer')?.scrollTo(0, 0)")
        page.screenshot(path=picture)
        error.add_note(f"the page: {picture.relative_to(parameters.ROOT)}")
        raise
    finally:
        page.close()


def run_all_cells(page):
    """Run > Run All Cells, and wait for the last one or for the first error."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_function(STOPPED, arg=ERROR, timeout=600_000, polling=500)


def problems(page, notebook):
    """What is wrong in the page of `notebook` (with the outputs that are expected), a line each; cells from 1."""
    found = [f"a dialog: {header}" for header in page.locator(".jp-Dialog-header").all_inner_texts()]
    cells = page.locator(CELL).evaluate_all(READ, ERROR)
    if len(cells) != len(notebook.cells):
        return [*found, f"{len(cells)} cells, expected {len(notebook.cells)}"]
    prompts = []
    for number, (cell, seen) in enumerate(zip(notebook.cells, cells, strict=True), start=1):
        wrong = [f"not understood: {formula}" for formula in seen["not_understood"]]
        if seen["error"]:
            wrong.append(seen["error"].strip().splitlines()[-1].strip())
        if raw := re.search(r"[$\\].{,40}", seen["text"]):
            wrong.append(f"a raw formula: {raw.group()}")
        if cell.cell_type == "markdown":
            formulas = len(re.findall(r"(\$\$?)[^$]+\1", re.sub(r"`[^`]+`", "", cell.source)))
            if seen["formulas"] != formulas:
                wrong.append(f"{seen['formulas']} formulas, expected {formulas}")
        else:
            prompts.append(seen["prompt"])
            drawn = sum(width > 0 for width in seen["widths"])
            figures = sum("image/png" in output.get("data", {}) for output in cell.outputs)
            if drawn < max(figures, len(seen["widths"])):
                wrong.append(f"{drawn} figures, expected {max(figures, len(seen['widths']))}")
        found += [f"cell {number}: {text}" for text in wrong]
    if prompts != [f"[{count}]:" for count in range(1, len(prompts) + 1)]:
        found.append(f"not every cell was run: {' '.join(prompts)}")
    return found


def dead_controls(page, seconds=30):
    """The labels of the sliders and buttons that change no picture beside them in this time."""
    beside = page.locator(f"{CELL}:has(.widget-slider) img")

    def pictures():
        return beside.evaluate_all("images => images.map(image => image.src)")

    dead = []
    for control in page.locator(CONTROL).all():
        beside.first.wait_for()
        before = pictures()
        if control.get_by_role("slider").count():
            control.get_by_role("slider").press("ArrowRight")
        else:
            control.locator("button:not(.mod-active)").first.click()
        changed = eventually(page, lambda old=before: len(old) == len(new := pictures()) and old != new, True, seconds)
        dead += [] if changed else [control.locator(".widget-label").inner_text()]
    return dead


def eventually(page, look, expected, seconds=30):
    """What `look()` returns, given time to become `expected`: formulas and pictures come after the text."""
    deadline = time.monotonic() + seconds
    while (value := look()) != expected and time.monotonic() < deadline:
        page.wait_for_timeout(200)
    return value


def controls_of(notebook):
    """How many sliders and groups of buttons the notebook's calls of tl.explore make."""
    trees = [ast.parse(cell.source) for cell in notebook.cells if cell.cell_type == "code"]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sum(len(call.keywords) for call in calls if ast.unparse(call.func) == "tl.explore")


@pytest.mark.parametrize("name", ["03_stage1_value_matrix", "05_loss_landscape"])
def test_run_from_the_menu(browser, lab, name):
    committed = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    n_controls = controls_of(committed)
    assert n_controls > 0  # else nothing is tested here
    with opened(browser, lab, name) as page:
        run_all_cells(page)
        assert eventually(page, lambda: problems(page, committed), []) == []
        assert eventually(page, page.locator(CONTROL).count, n_controls) == n_controls
        assert dead_controls(page) == []


def test_links_lead_on_and_back_to_the_contents(browser, lab):
    with opened(browser, lab, "03_stage1_value_matrix") as page:
        for text, file in [("contents", "README.md"), ("next", "04_stage2_attention.ipynb")]:
            page.get_by_role("tab", name="03_stage1_value_matrix.ipynb").click()
            page.locator(f"{CELL} a", has_text=text).click()
            page.get_by_role("tab", name=file).wait_for()


def test_whatever_is_wrong_in_a_page_is_found(browser, lab):
    with opened(browser, lab, "wrong") as page:
        run_all_cells(page)
        assert eventually(page, lambda: problems(page, WRONG), FOUND) == FOUND
        assert dead_controls(page, seconds=3) == ["dead"]


@pytest.mark.parametrize("name", STOPS)
def test_what_stops_a_notebook_ends_the_waiting(browser, lab, name):
    with opened(browser, lab, name) as page:
        run_all_cells(page)
        expected = STOPS[name][1]
        assert eventually(page, lambda: problems(page, stopping(name))[:1], [expected]) == [expected]
