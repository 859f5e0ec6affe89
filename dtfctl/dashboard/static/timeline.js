// A timeline of some steps over all tasks, and what it says to do.
import { html, useState, useEffect, useMemo, useRef, ask, bytes, us } from "./util.js";

const KINDS = { part: "a step's part", node: "a node", wait: "waits for a tensor", send: "sends a tensor", arrival: "a tensor arrives", collection: "garbage collection",
  input: "input", queue: "a queue", checkpoint: "a checkpoint", collective: "a group's sum", copy: "host and device", run: "Session.run", trace: "named by the script" };
const ROW = 18, GAP = 26;

// Where steps begin and end: parts of all tasks that overlap are one.
function stepsOf(bars) {
  const steps = [];
  for (const [, , ts, dur] of bars.filter((b) => b[4] === "part").sort((a, b) => a[2] - b[2])) {
    const last = steps[steps.length - 1];
    if (last && ts <= last[1]) last[1] = Math.max(last[1], ts + dur); else steps.push([ts, ts + dur]);
  }
  return steps;
}
const shownAt = ([a, b]) => [a - (b - a) / 8, b + (b - a) / 8];

function Bars({ found }) {
  const at = useRef(null), [view, look] = useState(null), [over, point] = useState(null), drag = useRef(null);
  const end = Math.max(1, ...found.bars.map((b) => b[2] + b[3]));
  const steps = useMemo(() => stepsOf(found.bars), [found]);
  useEffect(() => look(steps.length > 1 ? shownAt(steps[0]) : null), [found]);
  const [from, to] = view || [0, end];
  // The step in the middle of what is shown.
  const now = steps.findLastIndex((s) => s[0] <= (from + to) / 2);
  const go = (i) => bounded(...shownAt(steps[Math.min(Math.max(0, i), steps.length - 1)]));
  // A row for each thread of each task.
  const rows = new Map();
  let height = 24;
  for (const [pid, name] of Object.entries(found.tasks)) {
    const tids = [...new Set(found.bars.filter((b) => b[0] === +pid).map((b) => b[1]))].sort((a, b) => a - b);
    rows.set(`task ${pid}`, { y: height, name });
    height += GAP;
    for (const tid of tids) { rows.set(`${pid} ${tid}`, { y: height }); height += ROW; }
  }
  const bounded = (a, b) => { const w = Math.min(end, Math.max(1, b - a)); const s = Math.min(Math.max(0, a), end - w); look([s, s + w]); };
  const zoom = (f, at = 0.5) => { const m = from + (to - from) * at; bounded(m - (m - from) * f, m + (to - m) * f); };
  useEffect(() => {
    const c = at.current, ratio = devicePixelRatio || 1, width = c.clientWidth, style = getComputedStyle(document.documentElement);
    c.width = width * ratio; c.height = height * ratio; c.style.height = `${height}px`;
    const d = c.getContext("2d");
    d.scale(ratio, ratio); d.font = "11px system-ui"; d.textBaseline = "middle";
    const text = style.getPropertyValue("--text"), dim = style.getPropertyValue("--dim"), grid = style.getPropertyValue("--line"), x = (t) => (t - from) / (to - from) * width;
    const step = 10 ** Math.floor(Math.log10((to - from) / 4)), every = (to - from) / step > 15 ? step * 5 : step * 2;
    for (let t = Math.ceil(from / every) * every; t < to; t += every) { d.fillStyle = grid; d.fillRect(x(t), 0, 1, height); d.fillStyle = dim; d.fillText(us(t), x(t) + 3, 10); }
    for (const [key, row] of rows) if (row.name) { d.fillStyle = text; d.font = "600 12px system-ui"; d.fillText(row.name, 4, row.y + 14); d.font = "11px system-ui"; }
    for (const [pid, tid, ts, dur, kind, name] of found.bars) {
      if (ts > to || ts + dur < from) continue;
      const a = Math.max(0, x(ts)), w = Math.max(1, Math.min(width, x(ts + dur)) - a), y = rows.get(`${pid} ${tid}`).y;
      d.fillStyle = COLORS[kind] || "#888"; d.fillRect(a, y, w, ROW - 3);
      if (w > 42) { d.fillStyle = kind === "wait" ? "#222" : "#fff"; d.save(); d.beginPath(); d.rect(a, y, w - 3, ROW); d.clip(); d.fillText(name, a + 4, y + ROW / 2 - 1); d.restore(); }
    }
  });
  useEffect(() => {
    const wheel = (e) => { e.preventDefault(); const r = at.current.getBoundingClientRect(); zoom(e.deltaY > 0 ? 1.25 : 0.8, (e.clientX - r.left) / r.width); };
    const wide = new ResizeObserver(() => look((v) => v && [...v]));
    wide.observe(at.current);
    at.current.addEventListener("wheel", wheel, { passive: false });
    return () => { wide.disconnect(); at.current?.removeEventListener("wheel", wheel); };
  });
  const hit = (e) => {
    const r = at.current.getBoundingClientRect(), t = from + (e.clientX - r.left) / r.width * (to - from), y = e.clientY - r.top, slack = (to - from) / r.width * 2;
    if (drag.current) { const by = (drag.current.cx - e.clientX) / r.width * (to - from); bounded(drag.current.from + by, drag.current.to + by); return; }
    point(found.bars.findLast((b) => { const row = rows.get(`${b[0]} ${b[1]}`); return y >= row.y && y < row.y + ROW && b[2] - slack <= t && t <= b[2] + b[3] + slack; }) || null);
  };
  const keyed = (e) => {
    const w = to - from;
    if (e.key === "ArrowLeft") bounded(from - w / 5, to - w / 5); else if (e.key === "ArrowRight") bounded(from + w / 5, to + w / 5);
    else if (e.key === "+") zoom(0.6); else if (e.key === "-") zoom(1.6); else if (e.key === "0") look(null); else return;
    e.preventDefault();
  };
  return html`<div class="stages" role="group" aria-label="View"><button onClick=${() => zoom(0.5)} aria-label="Closer">+</button><button onClick=${() => zoom(2)} aria-label="Farther">−</button><button onClick=${() => look(null)}>Whole</button>
      ${steps.length > 1 && html`<button onClick=${() => go(now - 1)} disabled=${now < 1} aria-label="Step before">‹</button><button onClick=${() => go(now + 1)} disabled=${now > steps.length - 2} aria-label="Next step">›</button>`}
      <span class="dim">${steps.length > 1 && view ? `Step ${Math.max(1, now + 1)} of ${steps.length}, ` : ""}${us(to - from)} shown. Drag and wheel, or arrows, + and −.</span></div>
    <div class="scroll"><canvas ref=${at} style=${{ width: "100%", display: "block", cursor: "crosshair", touchAction: "pan-y" }} tabindex="0" role="img" aria-label="Timeline; the table below sums it up" onKeyDown=${keyed} onPointerMove=${hit}
      onPointerDown=${(e) => { drag.current = { cx: e.clientX, from, to }; }} onPointerUp=${() => { drag.current = null; }} onPointerLeave=${() => { drag.current = null; point(null); }}></canvas></div>
    <p class="mono" aria-live="polite">${over ? `${found.tasks[over[0]]}: ${over[5]} ${over[6]} ${us(over[3])}${over[7] ? `, ${bytes(over[7])}` : ""} (${KINDS[over[4]] || over[4]})` : " "}</p>`;
}
const amount = (value, unit) => unit === "share" ? `${Math.round(100 * value)} %` : `${+value.toPrecision(3)} ${unit}`;
const COLORS = { part: "#7d8ba0", node: "#2f6fed", send: "#c2571a", arrival: "#b0328a", wait: "#d9a514", collection: "#c62828",
  input: "#1b8a5a", queue: "#4aa37a", checkpoint: "#6d4bb8", collective: "#8a6d1b", copy: "#0f8b8d", run: "#a5b0c0", trace: "#5b6b80" };

export function Timeline({ known, at }) {
  const jobs = [...known.jobs.values()].filter((j) => !j.final && j.state !== "queued");
  const [job, choose] = useState(at[1] || ""), [busy, set] = useState(false), [found, show] = useState(null), [why, fail] = useState("");
  const record = async () => {
    set(true); fail("");
    try { show(await ask("/api/profile", { job })); } catch (e) { fail(e.message); }
    set(false);
  };
  const tasks = found?.summary.tasks || [];
  return html`<section class="card"><header><h2>Timeline</h2><select aria-label="Job" onChange=${(e) => choose(e.target.value)}><option value="">all jobs</option>${jobs.map((j) => html`<option selected=${j.id === job}>${j.id}</option>`)}</select>
      <button class="main" disabled=${busy} onClick=${record}>${busy ? "Recording …" : "Record 20 steps"}</button></header>
    ${why && html`<p class="empty" role="alert">${why}</p>`}
    ${!found && !why && html`<p class="empty">Records what all tasks do in some steps: what computes, what waits, what travels. While nothing is recorded it costs nothing.</p>`}
    ${found && html`<div class="legend">${Object.entries(KINDS).filter(([k]) => found.bars.some((b) => b[4] === k)).map(([k, t]) => html`<span><i class=${`k-${k}`}></i>${t}</span>`)}</div><${Bars} found=${found} />
      ${found.left_out > 0 && html`<p class="dim">${found.left_out} short bars are left out; all of them: dtfctl profile</p>`}`}</section>
    ${found && html`<section class="card"><h2>What it says</h2>${found.summary.advice.length ? html`<ul>${found.summary.advice.map((a) => html`<li>${a}</li>`)}</ul>` : html`<p>Nothing stands out.</p>`}
      <details><summary>What was looked at</summary><div class="scroll" tabindex="0" role="region" aria-label="Findings"><table><thead><tr>${["What", "Whose", "#Value", "#Too much from"].map((h) => html`<th scope="col" class=${h[0] === "#" ? "num" : ""}>${h.replace("#", "")}</th>`)}</tr></thead><tbody>
      ${found.summary.findings.map((f) => html`<tr><th scope="row">${f.kind}</th><td class="mono">${f.task}</td><td class="num"><span class=${f.is_crossed ? "state bad" : ""}>${amount(f.value, f.unit)}</span></td><td class="num">${amount(f.threshold, f.unit)}</td></tr>`)}</tbody></table></div></details>
      <div class="scroll" tabindex="0" role="region" aria-label="Summary"><table><thead><tr>${["Task", "Steps", "A step", "Waits for", "Sent", "Received", "Most time"].map((h) => html`<th scope="col">${h}</th>`)}</tr></thead><tbody>
      ${tasks.map((t) => html`<tr><th scope="row" class="mono">${t.task}</th><td>${t.steps}</td><td>${t.steps ? us(t.step_ms * 1e3) : "–"}</td><td>${Object.entries(t.waits).slice(0, 3).map(([o, s]) => `${o} ${Math.round(s * 100)} %`).join(", ") || "–"}</td>
        <td>${bytes(t.sent)}</td><td>${bytes(t.received)}</td><td>${t.problem || Object.entries(t.ops).slice(0, 3).map(([o, ms]) => `${o} ${us(ms * 1e3)}`).join(", ") || "–"}</td></tr>`)}</tbody></table></div></section>`}`;
}
