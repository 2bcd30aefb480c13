"""Records the runs that the pictures show, opens their pages in Chromium and keeps small pictures of them."""

import io
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from fedhalt.records import lines
from fedhalt.stopbench import runs as stopbench

FEDHALT = [sys.executable, "-c", "from fedhalt.cli import main; main()"]
OPTIONS = "--data digits --clients 20 --cohort 5 --skew dirichlet --c 0.5 --lr 0.05 --rounds 200 --average 10"
RUN = [*FEDHALT, "run", *OPTIONS.split()]
RULE = "#rule=growth&threshold=0.01&patience=10"
KINDS = {
    "desktop": {"viewport": {"width": 1280, "height": 1000}},
    "dark": {"viewport": {"width": 1280, "height": 1000}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
    "print": {"viewport": {"width": 794, "height": 1123}, "bypass_csp": True},
}
MARGIN = "body { padding: 52px; }"
"""That of the paper, which an emulated print does not have."""
COMMON, RARE = 32, 224
"""Colors of a picture: the most frequent exactly, of the others enough for every line; so it stays under 150 kB."""


def one_run(folder: Path) -> Path:
    """A run to the end of its budget, so that every rule can be judged; one that is finished is only read."""
    subprocess.run([*RUN, "--stop", "never", "--out", folder], check=True)
    return folder


def twelve_runs(folder: Path) -> Path:
    """The sweep of examples/sweep.toml, every configuration to its full budget."""
    subprocess.run([*FEDHALT, "sweep", "examples/sweep.toml", "--compare", "--out", folder], check=True)
    return folder


def hundred_runs(folder: Path) -> Path:
    """A hundred of StopBench's recorded runs: ten methods with three rates on blood cells."""
    shutil.rmtree(folder, ignore_errors=True)
    wanted = [
        run for run in stopbench.load_packed(stopbench.PACKED)
        if run.task == "blood" and run.spec["lr"] in (0.001, 0.1) and str(run.spec["model"]).startswith("probe")
    ]  # fmt: skip
    for run in wanted[:100]:
        rows = [
            {**row, stopbench.HIDDEN: float(accuracy)} for row, accuracy in zip(run.rows, run.accuracy, strict=True)
        ]
        (folder / run.name).mkdir(parents=True)
        header = lines.to_header({"spec": dict(run.spec), "budget": len(rows)})
        (folder / run.name / "trajectory.jsonl").write_bytes(header + b"".join(map(lines.to_line, rows)))
    return folder


def report(folder: Path, out: Path) -> str:
    subprocess.run([*FEDHALT, "report", folder, "-o", out], check=True)
    return out.resolve().as_uri() + RULE


@contextmanager
def opened(browser: Browser, address: str, kind: str):
    context = browser.new_context(**KINDS[kind])
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#hero figure")
    if kind == "print":
        page.emulate_media(media="print")
        page.add_style_tag(content=MARGIN)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    yield page
    context.close()


def keep(page: Page, path: Path) -> None:
    """A picture of what is seen first, with few colors."""
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    counted = sorted(image.getcolors(image.width * image.height), reverse=True)
    common = [part for _, color in counted[:COMMON] for part in color]
    rare = image.quantize(RARE, Image.Quantize.MAXCOVERAGE).getpalette()
    palette = Image.new("P", (1, 1))
    palette.putpalette(common + rare)
    image.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def keep_watch(browser: Browser, folder: Path, pictures: Path) -> None:
    """`fedhalt watch` while a run trains, after its 30th round."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "runs").mkdir(parents=True)
    watch = subprocess.Popen([*FEDHALT, "watch", "runs"], cwd=folder, stdout=subprocess.PIPE, text=True)
    train = subprocess.Popen([*RUN, "--stop", "never", "--out", "runs"], cwd=folder, stdout=subprocess.DEVNULL)
    try:
        address = re.match(r"\S+", watch.stdout.readline()).group()
        for kind in ("desktop", "phone"):
            with opened(browser, address, kind) as page:
                page.locator("#lead", has_text=re.compile(r" ([3-9]\d|1\d\d) recorded rounds")).wait_for(
                    timeout=300_000
                )
                keep(page, pictures / f"watch-{kind}.png")
    finally:
        for process in (train, watch):
            process.terminate()
            process.communicate()


def main(runs: Path, pictures: Path) -> None:
    runs.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    one, twelve, hundred = one_run(runs / "one"), twelve_runs(runs / "twelve"), hundred_runs(runs / "hundred")
    with sync_playwright() as made:
        browser = made.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, folder in (("one", one), ("hundred", hundred)):
            address = report(folder, runs / f"{name}.html")
            for kind in KINDS:
                with opened(browser, address, kind) as page:
                    keep(page, pictures / f"report-{name}-{kind}.png")
        with opened(browser, report(twelve, runs / "twelve.html"), "desktop") as page:
            keep(page, pictures / "report.png")
        keep_watch(browser, runs / "watch", pictures)
        browser.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
