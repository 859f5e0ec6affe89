// What pages share: words for values, small parts, requests, dialogs.
import { html, Component, useState, useEffect, useMemo, useRef } from "./vendor/preact-htm.js";
import { place } from "./feed.js";
export { html, Component, useState, useEffect, useMemo, useRef };

const GOOD = new Set(["running", "up", "healthy", "succeeded", "done"]);
const BAD = new Set(["failed", "crashed", "lost", "down"]);
const WARN = new Set(["starting", "pending", "stopping", "recovering", "suspect", "quarantined", "drained", "cancelled"]);
export const tone = (state) => GOOD.has(state) ? "good" : BAD.has(state) ? "bad" : WARN.has(state) ? "warn" : "";
export const State = ({ of }) => html`<span class=${"state " + tone(of)}>${of}</span>`;

export function bytes(n) {
  if (n == null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < 4) { n /= 1024; i++; }
  return `${i && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}
export function duration(s) {
  if (s == null) return "–";
  s = Math.max(0, s);
  if (s < 60) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${String(Math.round(s % 60)).padStart(2, "0")} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${String(Math.floor(s % 3600 / 60)).padStart(2, "0")} m`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
}
export const since = (t) => t ? duration(Date.now() / 1000 - t) : "–";
export const clock = (t) => new Date(t * 1000).toLocaleTimeString();
export const count = (n) => n == null ? "–" : n.toLocaleString("en");
export function number(x) {
  if (x == null) return "–";
  const a = Math.abs(x);
  return Number.isInteger(x) && a < 1e9 ? count(x) : a >= 1000 || (a < 1e-3 && a > 0) ? x.toExponential(3) : String(+x.toPrecision(4));
}
export const us = (t) => !t ? "0" : t < 1000 ? `${t.toFixed(t < 10 ? 1 : 0)} µs` : t < 1e6 ? `${(t / 1e3).toFixed(t < 1e4 ? 2 : 1)} ms` : `${(t / 1e6).toFixed(2)} s`;

export async function ask(path, body) {
  const answer = await fetch(path, body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error + (found.hint ? ` (${found.hint})` : ""));
  return found;
}

// One dialog and one message at a time, which the shell shows.
export const shell = { confirm: () => Promise.resolve(false), say: () => {} };

export function Act({ verb, what, question, label, danger = true, small = true }) {
  const [busy, set] = useState(false);
  const go = async () => {
    if (!await shell.confirm(question, label || verb)) return;
    set(true);
    try { await ask("/api/do", { verb, what }); shell.say(`${verb} ${what}: done`); }
    catch (e) { shell.say(e.message, true); }
    set(false);
  };
  return html`<button class=${(small ? "small " : "") + (danger ? "danger" : "")} disabled=${busy} onClick=${go}
    aria-label=${`${label || verb} ${what}`}>${busy ? "…" : label || verb}</button>`;
}

export const Meter = ({ share, text }) => html`<span class="meter" aria-hidden="true"><i class=${share > 0.9 ? "hot" : ""}
  style=${{ width: `${Math.min(100, share * 100)}%` }}></i></span>${text}`;

// A table whose rows are drawn again only where their item is another one.
class Row extends Component {
  shouldComponentUpdate(next) { return next.item !== this.props.item || next.tick !== this.props.tick; }
  render({ item, cells, head }) {
    const shown = [cells(item)].flat(3).filter((cell) => cell?.props);
    // On a phone each cell says what it is.
    shown.forEach((cell, i) => { if (head[i]) cell.props["data-of"] = head[i].replace("#", ""); });
    return html`<tr>${shown}</tr>`;
  }
}
export function Table({ head, rows, cells, tick, empty = "Nothing yet.", label }) {
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table class="rows">
    <thead><tr>${head.map((h) => html`<th scope="col" class=${h[0] === "#" ? "num" : ""}>${h.replace("#", "")}</th>`)}</tr></thead>
    <tbody>${rows.map((r) => html`<${Row} key=${r.name ?? r.id ?? r.seq} item=${r} cells=${cells} head=${head} tick=${tick} />`)}</tbody></table></div>`;
}

export function Log({ of }) {
  const [lines, set] = useState([]);
  const [note, setNote] = useState("");
  const box = useRef(null), stuck = useRef(true);
  useEffect(() => {
    let lines = [], wanted = false, source = null, leave = null, over = false;
    set([]); setNote("");
    const end = () => { source?.close(); leave?.(); source = leave = null; };
    // Who is not looked at leaves the connection to others.
    const turned = () => { if (document.hidden) end(); else if (!over) leave ??= place(placed); };
    const placed = (waits) => {
      setNote(waits ? "Other tabs show output: this one is next when one of them is closed or left." : "");
      if (!waits) open();
    };
    const open = () => { source = new EventSource(`/api/logs?of=${encodeURIComponent(of)}`); lines = []; source.onmessage = heard; source.onerror = failed; };
    const heard = (e) => {
      const news = JSON.parse(e.data);
      if (news.ended) { over = true; end(); setNote("That was all: it has ended."); return; }
      lines = lines.concat(news.lines).slice(-2000);
      if (!wanted) { wanted = true; requestAnimationFrame(() => { wanted = false; set(lines); }); }
    };
    const failed = () => {
      if (source?.readyState === 2) { end(); setNote("There is no output to be read (yet)."); }
      else lines = [];  // it begins again with the newest lines
    };
    turned();
    document.addEventListener("visibilitychange", turned);
    return () => { over = true; document.removeEventListener("visibilitychange", turned); end(); };
  }, [of]);
  useEffect(() => { if (stuck.current && box.current) box.current.scrollTop = box.current.scrollHeight; }, [lines]);
  const scrolled = (e) => { const b = e.target; stuck.current = b.scrollHeight - b.scrollTop - b.clientHeight < 30; };
  return html`<div class="log" ref=${box} onScroll=${scrolled} tabindex="0" role="log" aria-label=${`Output of ${of}`}>
    ${lines.map(([source, stream, text]) => html`<div class=${stream}><span class="src">${source.split(":").pop()} │ </span>${plain(text)}</div>`)}
    ${note ? html`<div class="dim">${note}</div>` : !lines.length && html`<div class="dim">Waiting for output …</div>`}</div>`;
}
// A progress bar's line is what stands there in the end; colours of a terminal are left out.
const plain = (text) => text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, "").split("\r").filter(Boolean).pop() ?? "";

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export function Plot({ title, xs, ys, x = "step" }) {
  const at = useRef(null), plot = useRef(null);
  const [dark, setDark] = useState(0);
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const turned = () => setDark((n) => n + 1);
    scheme.addEventListener("change", turned);
    return () => scheme.removeEventListener("change", turned);
  }, []);
  useEffect(() => {
    const axis = { stroke: color("--dim"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") }, font: "11px system-ui" };
    plot.current = new uPlot({
      width: at.current.clientWidth || 300, height: 190, cursor: { y: false }, legend: { show: true, live: true },
      scales: { x: { time: false } },
      axes: [{ ...axis }, { ...axis, size: 62, values: (_, v) => v.map(number) }],
      series: [{ label: x, value: (_, v) => count(v) }, { label: title, stroke: color("--accent"), width: 1.6, points: { show: (u) => u.data[0].length < 3 }, value: (_, v) => number(v) }],
    }, [xs, ys], at.current);
    const watch = new ResizeObserver(() => plot.current.setSize({ width: at.current.clientWidth, height: 190 }));
    watch.observe(at.current);
    return () => { watch.disconnect(); plot.current.destroy(); };
  }, [dark]);
  useEffect(() => { plot.current.setData([xs, ys]); }, [xs.length, xs[xs.length - 1]]);
  return html`<div class="plot" role="img" aria-label=${`${title}: now ${number(ys[ys.length - 1])}`}>
    <h3>${title}<span>${number(ys[ys.length - 1])}</span></h3><div ref=${at}></div></div>`;
}
