"""A browser that looks at a dashboard: python browser_page.py URL JOB --only NAME [--shots FOLDER].

In a Python that has playwright. Prints what it found as JSON. NAME is a function of this file; with a folder it leaves
pictures there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Error, Locator, Page, expect, sync_playwright

PAGES = ("cluster", "jobs", "graph", "timeline", "links", "events", "draw", "studies")
PATIENCE_MS = 120_000
# Strokes, in parts of the paper.
STROKES = {
    "0": [[(0.5 + 0.24 * math.sin(i / 3), 0.5 - 0.36 * math.cos(i / 3)) for i in range(20)]],
    "1": [[(0.5, 0.12), (0.5, 0.88)]],
    "4": [[(0.6, 0.88), (0.6, 0.12), (0.24, 0.62), (0.8, 0.62)]],
    "7": [[(0.25, 0.14), (0.76, 0.14), (0.42, 0.88)]],
}


class Looker:
    """Opens pages and notes whatever goes wrong in them."""

    def __init__(self, browser: Browser, url: str, folder: Path | None) -> None:
        self.browser = browser
        self.url = url
        self.base = url.partition("/#")[0]
        self.folder = folder
        self.problems: list[str] = []

    def open(self, url: str, first: str = "", **how: Any) -> Page:
        """Open an address; `first` is a script that runs before those of each page."""
        context = self.browser.new_context(**how)
        context.add_init_script(first)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("console", lambda said: said.type == "error" and self.problems.append(f"console: {said.text}"))
        page.on("dialog", lambda dialog: self.problems.append(f"alert: {dialog.message}"))
        page.on(
            "request", lambda asked: asked.url.startswith(self.base) or self.problems.append(f"outside: {asked.url}")
        )
        visit(page, url)
        return page

    def picture(self, page: Page, name: str, *, full: bool = False) -> None:
        if self.folder is not None:
            page.wait_for_timeout(1500)
            page.screenshot(path=self.folder / f"{name}.png", full_page=full)


def visit(page: Page, url: str) -> None:
    """Go to an address; once more where the machine's network has changed meanwhile, at which browsers give up."""
    try:
        page.goto(url)
    except Error as error:
        if "ERR_NETWORK_CHANGED" not in error.message:
            raise
        page.goto(url)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("job")
    parser.add_argument("--shots", type=Path)
    shown = (pages, keys, draw, digits, study, phone, many, history)
    seen = (*shown, strangers, origins, live, alone, killed, tabs, hosts, deeds)
    looks = {look.__name__: look for look in seen}
    parser.add_argument("--only", choices=looks, required=True)
    given = parser.parse_args()
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        looker = Looker(browser, given.url, given.shots)
        found = looks[given.only](looker, given.job)
        browser.close()
    print(json.dumps({**found, "problems": looker.problems}))
    return 0


def strangers(looker: Looker, _job: str) -> dict[str, Any]:
    """Open the page without the token, and with a wrong one, which asks in vain."""
    page = looker.open(looker.base)
    expect(page.locator("body")).to_contain_text("who has started it")
    before = len(looker.problems)
    wrong = looker.open(f"{looker.base}/#token=guess")
    expect(wrong.locator("body")).to_contain_text("who has started it")
    # That it was refused is in the console.
    refused = looker.problems[before:]
    del looker.problems[before:]
    return {"refused": len(refused), "address": wrong.url.removeprefix(looker.base)}


class Another(BaseHTTPRequestHandler):
    """Serves a page that has nothing to do with the dashboard."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>another</title><link rel=icon href=data:,><body></body>")

    def log_message(self, *_: Any) -> None: ...


def origins(looker: Looker, job: str) -> dict[str, Any]:
    """Have a page of another port of this host, in a browser that is logged in, try to look and to act."""
    page = looker.open(looker.url)
    expect(page.locator(".live")).to_have_text("live")
    other = page.context.new_page()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Another)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    other.goto(f"http://127.0.0.1:{server.server_port}/")
    tried = other.evaluate(
        """async ([base, job]) => {
          const act = JSON.stringify({ verb: "cancel", what: job }), how = { credentials: "include" };
          const said = {};
          const attempt = async (name, work) => {
            try { said[name] = await work(); } catch (e) { said[name] = "refused"; }
          };
          const post = (more) => fetch(base + "/api/do", { ...how, method: "POST", body: act, ...more });
          await attempt("read", async () => (await fetch(base + "/api/me", how)).text());
          await attempt("act", async () => (await post()).text());
          await attempt("blind", async () => (await post({ mode: "no-cors" })).type);
          await attempt("stream", () => new Promise((done) => {
            const source = new EventSource(base + "/api/stream", { withCredentials: true });
            source.onmessage = () => done("heard"); source.onerror = () => { source.close(); done("refused"); };
          }));
          await attempt("script", () => new Promise((done) => {
            const script = document.createElement("script");
            script.onload = () => done("run"); script.onerror = () => done("refused");
            script.src = base + "/static/vendor/uplot.js"; document.body.append(script);
          }));
          const frame = document.createElement("iframe");
          await new Promise((done) => { frame.onload = done; frame.src = base + "/"; document.body.append(frame); });
          await attempt("frame", () => frame.contentWindow.document.body.innerText);
          return said;
        }""",
        [looker.base, job],
    )
    frames = [frame.url.removeprefix(looker.base) for frame in other.frames[1:]]
    page.context.close()
    server.shutdown()
    server.server_close()
    return {"tried": tried, "frames": frames}


def keys(looker: Looker, job: str) -> dict[str, Any]:
    """Reach all that can be used on each page by Tab alone, and see where one is."""
    page = looker.open(looker.url, viewport={"width": 1280, "height": 860})
    expect(page.locator(".live")).to_have_text("live")
    missed: dict[str, list[str]] = {}
    for name in (
        "cluster",
        f"jobs/{job}",
        f"graph/{job}",
        f"timeline/{job}",
        "links",
        "events",
        f"draw/{job}",
        "studies",
    ):
        page.goto(f"{looker.base}/#/{name}")
        expect(page.locator("main section").first).to_be_visible()
        if name.startswith("graph"):
            expect(page.locator("svg.canvas .node").first).to_be_visible()
        # What stays is marked, as pages draw themselves again while one walks.
        wanted = page.evaluate(
            """() => { const all = [...document.querySelectorAll("a[href], button, input, select, [tabindex='0']")]
              .filter((e) => !e.disabled && e.checkVisibility() && e.tabIndex >= 0);
              all.forEach((e, i) => { e.dataset.stop = i; }); return all.length; }"""
        )
        page.evaluate("document.activeElement.blur()")
        reached: dict[str, bool] = {}
        for _ in range(3 * wanted):
            page.keyboard.press("Tab")
            stop, outlined = page.evaluate(
                """() => { const e = document.activeElement, s = getComputedStyle(e), r = e.querySelector?.("rect");
                  const shown = s.outlineStyle !== "none" || (r && getComputedStyle(r).strokeWidth === "3px");
                  return [e.dataset.stop ?? "", shown]; }"""
            )
            reached[stop] = bool(outlined)
            if len(reached.keys() - {""}) == wanted:
                break
        missed[name] = [stop for stop in map(str, range(wanted)) if not reached.get(stop)]
    page.context.close()
    return {"missed": {name.split("/")[0]: stops for name, stops in missed.items() if stops}}


def row_of(page: Page, event: str) -> Locator:
    """Find the events of a kind about worker/1."""
    return page.locator("tr", has_text=event).filter(has_text="worker/1")


def pages(looker: Looker, job: str) -> dict[str, Any]:
    """Open each page by its key, and look at what is there."""
    page = looker.open(looker.url, viewport={"width": 1280, "height": 860})
    main = page.locator("main")
    expect(page.locator(".live")).to_have_text("live")
    expect(main).to_contain_text("worker/0")
    looker.picture(page, "cluster")
    titles = []
    for number, name in enumerate(PAGES, 1):
        page.keyboard.press(str(number))
        expect(page.locator("nav a[aria-current]")).to_have_attribute("href", f"#/{name}")
        titles.append(page.title())
    expect(main).to_contain_text("No study of this cluster yet")
    page.keyboard.press("6")
    expect(main).to_contain_text("job.running")
    looker.picture(page, "events")
    page.keyboard.press("2")
    page.get_by_role("link", name=job).press("Enter")
    expect(page.locator(".log")).to_contain_text("<img src=x onerror=")
    expect(page.locator(".plot canvas").first).to_be_visible()
    expect(main).to_contain_text("<script>window.owned")
    looker.picture(page, "job", full=True)
    page.goto(f"{looker.base}/#/graph/{job}")
    expect(page.locator("svg.canvas .node.cross").first).to_be_visible()
    looker.picture(page, "graph")
    boxes = page.locator("svg.canvas .node").count()
    page.get_by_role("button", name="Close all scopes").click()
    scope = page.locator("svg.canvas .node.scope").first
    expect(scope).to_be_visible()
    closed = page.locator("svg.canvas .node").count()
    scope.press("Enter")
    page.wait_for_function("n => document.querySelectorAll('svg.canvas .node').length !== n", arg=closed)
    page.get_by_role("button", name="pruned").click()
    expect(page.get_by_role("button", name="pruned")).to_have_attribute("aria-pressed", "true")
    page.goto(f"{looker.base}/#/timeline/{job}")
    page.get_by_role("button", name="Record 20 steps").click()
    expect(page.locator("canvas")).to_be_visible()
    expect(main).to_contain_text("What it says")
    looker.picture(page, "timeline")
    page.goto(f"{looker.base}/#/links")
    expect(page.locator("table.matrix")).to_contain_text("ps/0")
    owned = page.evaluate("[typeof window.owned, document.querySelectorAll('img[src=x]').length]")
    page.context.close()
    return {"titles": titles, "owned": owned, "boxes": [boxes, closed]}


def stroke(page: Page, points: list[tuple[float, float]]) -> None:
    """Draw with the mouse."""
    box = page.get_by_label("Paper").bounding_box()
    assert box is not None
    placed = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
    page.mouse.move(*placed[0])
    page.mouse.down()
    for point in placed:
        page.mouse.move(*point, steps=4)
    page.mouse.up()


def draw(looker: Looker, job: str) -> dict[str, Any]:
    """Draw on either side of the paper, with the mouse and with keys."""
    page = looker.open(looker.url)
    expect(page.locator(".live")).to_have_text("live")
    page.goto(f"{looker.base}/#/draw/{job}")
    expect(page.get_by_role("status").last).to_have_text("Draw something.")
    expect(page.locator("main")).to_contain_text("images:0, 8 x 8")
    # Else strokes are moved to the middle.
    page.get_by_label("fitted").uncheck()
    answer = page.locator("[aria-busy=false] .said")
    stroke(page, [(0.2, 0.2), (0.3, 0.8)])
    expect(answer).to_be_visible()
    said = [answer.inner_text()]
    paper = page.get_by_label("Paper")
    paper.press("Delete")
    expect(answer).to_have_count(0)
    for _ in range(10):
        paper.press("Shift+ArrowRight")
    expect(answer).to_have_count(0)
    for _ in range(6):
        paper.press("ArrowUp")
    expect(answer).to_be_visible()
    said.append(answer.inner_text())
    page.context.close()
    return {"said": said}


def digits(looker: Looker, job: str) -> dict[str, Any]:
    """Draw some digits, and read what a model takes them for."""
    page = looker.open(looker.url)
    expect(page.locator(".live")).to_have_text("live")
    page.goto(f"{looker.base}/#/draw/{job}")
    said = ""
    for strokes in STROKES.values():
        page.get_by_role("button", name="Clear").click()
        expect(page.locator(".said")).to_have_count(0)
        for points in strokes:
            stroke(page, points)
        answer = page.locator("[aria-busy=false] .said")
        expect(answer).to_be_visible()
        said += answer.inner_text()
    looker.picture(page, "draw")
    page.context.close()
    return {"drawn": "".join(STROKES), "said": said}


def study(looker: Looker, _job: str) -> dict[str, Any]:
    """See a study end while its page is open, and go from a trial to its job by keyboard."""
    page = looker.open(looker.url)
    expect(page.locator(".live")).to_have_text("live")
    page.goto(f"{looker.base}/#/studies")
    main = page.locator("main")
    expect(main).to_contain_text("all trials have run", timeout=4 * PATIENCE_MS)
    rows = page.get_by_role("region", name="Trials").locator("tbody tr")
    trial = rows.first.get_by_role("rowheader").inner_text()
    link = rows.first.get_by_role("link")
    link.focus()
    pointed = page.locator(".study .over title").all_text_contents()
    looker.picture(page, "studies", full=True)
    found = {
        "text": main.inner_text(),
        "rows": rows.count(),
        "drawn": [page.locator(f".study {shape}").count() for shape in ("circle", "polyline")],
        "pointed": [title.partition(":")[0] == f"trial {trial}" for title in pointed],
        "wide": page.evaluate("document.documentElement.scrollWidth > innerWidth"),
        "owned": page.evaluate("[typeof window.owned, document.querySelectorAll('img[src=x]').length]"),
    }
    job = link.inner_text()
    link.press("Enter")
    expect(page.locator("main h2").first).to_contain_text(job)
    page.context.close()
    return found


def phone(looker: Looker, job: str) -> dict[str, Any]:
    """Open each page on a small dark screen; nothing is wider than it."""
    page = looker.open(
        looker.url,
        viewport={"width": 390, "height": 780},
        color_scheme="dark",
        device_scale_factor=2,
        is_mobile=True,
        has_touch=True,
    )
    wide = []
    for name in (*PAGES, f"jobs/{job}"):
        page.goto(f"{looker.base}/#/{name}")
        expect(page.locator("main section").first).to_be_visible()
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wide.append(name)
        if name == "cluster":
            looker.picture(page, "phone")
    page.goto(f"{looker.base}/#/draw/{job}")
    page.get_by_label("fitted").uncheck()
    box = page.get_by_label("Paper").bounding_box()
    assert box is not None
    finger = page.context.new_cdp_session(page)
    x, y = box["x"] + 0.75 * box["width"], box["y"] + 0.3 * box["height"]
    for kind, points in (
        ("touchStart", [{"x": x, "y": y}]),
        ("touchMove", [{"x": x, "y": y + 40}]),
        ("touchEnd", []),
    ):
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    expect(page.locator(".said")).to_be_visible()
    touched = page.locator(".said").inner_text()
    looker.picture(page, "draw-phone")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.context.close()
    return {"wide": wide, "dark": dark, "touched": touched}


def live(looker: Looker, _job: str, first: str = "") -> dict[str, Any]:
    """See a task restarted from another page."""
    page, other = looker.open(looker.url, first), looker.open(looker.url, first)
    row = page.locator("tr", has=page.get_by_role("rowheader", name="worker/1"))
    expect(row).to_contain_text("running")
    before = row.locator("td").nth(3).inner_text()
    other.get_by_role("button", name="restart worker/1").click()
    other.get_by_role("button", name="Yes, restart").click()
    began = time.monotonic()
    page.wait_for_function(
        "before => [...document.querySelectorAll('tr')].some(r => r.textContent.startsWith('worker/1') && "
        "(!r.textContent.includes('running') || r.children[4].textContent !== before))",
        arg=before,
    )
    took = time.monotonic() - began
    workers = page.evaluate("typeof SharedWorker")
    page.context.close()
    other.context.close()
    return {"seen_after_s": round(took, 2), "workers": workers}


def alone(looker: Looker, job: str) -> dict[str, Any]:
    """See the same in a browser that has no shared workers."""
    return live(looker, job, "delete window.SharedWorker")


def killed(looker: Looker, process: str) -> dict[str, Any]:
    """Look while what serves the page is killed, which a file names, and comes back."""
    page = looker.open(looker.url)
    state = page.locator(".live")
    expect(state).to_have_text("live")
    page.evaluate("window.same = true")
    before = json.loads(Path(process).read_text())["pid"]
    os.kill(before, signal.SIGKILL)
    expect(state).not_to_have_text("live")
    expect(state).to_have_text("live")
    same = page.evaluate("window.same === true")
    after = json.loads(Path(process).read_text())["pid"]
    # That nobody answered meanwhile is in the console.
    looker.problems[:] = [one for one in looker.problems if "ERR_" not in one]
    page.context.close()
    return {"same": same, "another": after != before}


def many(looker: Looker, _job: str) -> dict[str, Any]:
    """Watch a large cluster of which some tasks change: how smooth it is, and what is drawn again."""
    page = looker.open(looker.url, viewport={"width": 1280, "height": 860})
    rows = page.get_by_role("region", name="Tasks").locator("tbody tr")
    expect(rows).to_have_count(500)
    expect(page.get_by_role("region", name="Hosts").locator("tbody tr")).to_have_count(50)
    expect(page.locator(".tile", has_text="Slurm job 17")).to_contain_text("2 h 01 m left")
    found: dict[str, Any] = page.evaluate(
        """() => new Promise((done) => {
          const drawn = new Set(), frames = [], began = performance.now();
          new MutationObserver((all) => { for (const m of all) {
            const at = m.target.nodeType === 1 ? m.target : m.target.parentElement;
            const row = at.closest("[aria-label=Tasks] tbody tr");
            if (row) drawn.add(row.querySelector("th").textContent);
          } }).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
          let last = began;
          const next = (now) => {
            frames.push(now - last); last = now;
            if (now - began < 4000) { scrollBy(0, frames.length % 40 < 20 ? 30 : -30); requestAnimationFrame(next); }
            else {
              frames.sort((a, b) => a - b);
              const p95 = frames[Math.floor(frames.length * 0.95)];
              done({ drawn: [...drawn], frames: frames.length, most_ms: frames.at(-1), p95_ms: p95 });
            }
          };
          requestAnimationFrame(next);
        })"""
    )
    looker.picture(page, "many")
    page.get_by_label("Find tasks").fill("worker/47")
    expect(rows).to_have_count(11)
    page.context.close()
    return found


def history(looker: Looker, job: str) -> dict[str, Any]:
    """Look at a job that has ended before the dashboard was started: its plots are there."""
    page = looker.open(looker.url)
    expect(page.locator(".live")).to_have_text("live")
    page.goto(f"{looker.base}/#/jobs/{job}")
    plot = page.get_by_role("img", name="loss")
    expect(plot.locator("canvas")).to_be_visible()
    said = plot.get_attribute("aria-label")
    page.get_by_role("link", name="Graph", exact=True).last.click()
    expect(page.locator("main")).to_contain_text("which has ended, as saved in")
    expect(page.locator("svg.canvas .node").first).to_be_visible()
    page.context.close()
    return {"said": said}


def tabs(looker: Looker, job: str) -> dict[str, Any]:
    """Open more pages of one browser than it has connections to a server: each follows the cluster and a log."""
    first = looker.open(looker.url)
    expect(first.locator(".live")).to_have_text("live")
    opened = [first, *(first.context.new_page() for _ in range(7))]
    for page in opened:
        page.set_default_timeout(PATIENCE_MS)
        visit(page, f"{looker.base}/#/jobs/{job}")
        expect(page.locator(".live")).to_have_text("live")
        expect(page.locator(".log")).to_contain_text(re.compile("<img src=x|Other tabs show output"))
    waiting = [page for page in opened if "Other tabs" in page.locator(".log").inner_text()]
    showing = [page for page in opened if page not in waiting]
    looker.picture(waiting[0], "tab")
    # Who leaves lets the next one in, and who waits can still ask for something.
    for page in showing:
        page.goto(f"{looker.base}/#/events")
        expect(row_of(page, "task.starting").first).to_be_visible()
    before = row_of(showing[0], "task.starting").count()
    until = time.monotonic() + PATIENCE_MS / 1000
    while sum("<img" in page.locator(".log").inner_text() for page in waiting) < len(showing):
        assert time.monotonic() < until, "a place that was left is not taken"
        first.wait_for_timeout(100)
    last = waiting[-1]
    last.goto(f"{looker.base}/#/cluster")
    last.get_by_role("button", name="restart worker/1").click()
    last.get_by_role("button", name="Yes, restart").click()
    for page in showing:
        expect(row_of(page, "task.starting")).to_have_count(before + 1)
    for page in waiting[:-1]:
        page.goto(f"{looker.base}/#/events")
        expect(row_of(page, "task.starting")).to_have_count(before + 1)
    first.context.close()
    return {"showing": len(showing), "waiting": len(waiting)}


def hosts(looker: Looker, host: str) -> dict[str, Any]:
    """Drain a host: not when the question is answered with no; then put it back, with another page looking on."""
    page, other = looker.open(looker.url), looker.open(looker.url)
    rows = [each.locator("tr", has=each.get_by_role("rowheader", name=host)) for each in (page, other)]
    shown = []
    for verb, answer, after in (("drain", "No", "up"), ("drain", "Yes, drain", "drained"), ("undrain", "Yes", "up")):
        page.get_by_role("button", name=f"{verb} {host}", exact=True).click()
        expect(page.locator("dialog")).to_contain_text(host)
        page.locator("dialog").get_by_role("button", name=answer).click()
        expect(page.locator("dialog")).to_have_count(0)
        for row in rows:
            expect(row.locator(".state")).to_have_text(after)
        shown.append(rows[1].locator(".state").inner_text())
    page.context.close()
    other.context.close()
    return {"shown": shown}


def deeds(looker: Looker, job: str) -> dict[str, Any]:
    """Cancel the job: not when the question is left, then by keyboard."""
    page = looker.open(f"{looker.base}/#token={looker.url.partition('token=')[2]}")
    expect(page.locator(".live")).to_have_text("live")
    page.goto(f"{looker.base}/#/jobs/{job}")
    button = page.get_by_role("button", name=f"cancel {job}")
    button.press("Enter")
    expect(page.locator("dialog")).to_be_visible()
    looker.picture(page, "question")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    first = page.locator(".card .state").first.inner_text()
    button.press("Enter")
    page.get_by_role("button", name="Yes, cancel").press("Enter")
    expect(page.locator(".card .state").first).to_have_text("cancelled")
    return {"after_escape": first}


if __name__ == "__main__":
    sys.exit(main())
