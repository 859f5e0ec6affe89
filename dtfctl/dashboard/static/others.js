// Links between tasks and hosts; events.
import { html, useState, State, Table, bytes, clock } from "./util.js";

function Matrix({ names, rates, label }) {
  const most = Math.max(1, ...[...rates.values()].map((r) => r.rate));
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table class="matrix"><thead><tr><th scope="col">from \\ to</th>${names.map((n) => html`<th scope="col">${n}</th>`)}</tr></thead>
    <tbody>${names.map((a) => html`<tr><th scope="row">${a}</th>${names.map((b) => {
      const r = rates.get(`${a} ${b}`);
      if (!r) return html`<td class="dim">${a === b ? "" : "·"}</td>`;
      return html`<td class=${`shade-${r.rate ? 1 + Math.min(3, Math.floor(4 * r.rate / most)) : 0}`} title=${r.title}>${r.text}</td>`;
    })}</tr>`)}</tbody></table></div>`;
}
const MOST = 60;

export function Links({ known }) {
  const tasks = [...known.tasks.values()], rates = new Map(), used = new Set();
  for (const t of tasks) for (const l of t.links) {
    used.add(t.name); used.add(l.peer);
    const text = l.bytes_s ? `${bytes(l.bytes_s)}/s` : l.transport;
    rates.set(`${t.name} ${l.peer}`, { rate: l.bytes_s, text, title: `${t.name} to ${l.peer}: ${l.transport}${l.encrypted ? ", encrypted" : ""}, ${l.samples} transfers measured${l.codecs ? `; ${l.codecs}` : ""}` });
  }
  const names = tasks.map((t) => t.name).filter((n) => used.has(n));
  const hosts = new Map(), ends = new Set();
  for (const l of known.cluster.links || []) {
    ends.add(l.source); ends.add(l.target);
    hosts.set(`${l.source} ${l.target}`, { rate: l.bytes_s, text: l.problem || `${bytes(l.bytes_s)}/s`, title: l.problem || `${l.source} to ${l.target}: round trip ${(l.round_trip_s * 1e3).toFixed(2)} ms` });
  }
  return html`<section class="card"><h2>Between tasks</h2>
      ${names.length ? html`<${Matrix} label="Links between tasks" names=${names.slice(0, MOST)} rates=${rates} />` : html`<p class="empty">No task is linked to another one now. Links are made when steps need them.</p>`}
      ${names.length > MOST && html`<p class="dim">The first ${MOST} of ${names.length} tasks.</p>`}
      <p class="dim">What the newest long transfers were carried at; a transport's name where none was long enough.</p></section>
    <section class="card"><h2>Between hosts</h2>
      ${ends.size ? html`<${Matrix} label="Links between hosts" names=${[...ends].sort()} rates=${hosts} />` : html`<p class="empty">Not measured yet: dtfctl doctor --links</p>`}</section>`;
}

const BAD = /fail|crash|lost|down|suspect|fault|degraded|problem|quarantined/;
export function Events({ known }) {
  const [text, find] = useState("");
  const rows = known.events.filter((e) => !text || `${e.kind} ${e.subject} ${e.reason}`.toLowerCase().includes(text.toLowerCase())).reverse().slice(0, 500);
  return html`<section class="card"><header><h2>Events</h2><span class="spring"></span><input type="search" placeholder="Find ( / )" aria-label="Find events" value=${text} onInput=${(e) => find(e.target.value)} /></header>
    <${Table} label="Events" rows=${rows} head=${["Time", "What", "Whom", "Why"]} empty=${text ? "No event is like that." : "Nothing has happened."}
      cells=${(e) => html`<td class="dim">${clock(e.time)}</td><td><span class=${"state " + (BAD.test(e.kind) ? "bad" : "")}>${e.kind}</span></td><td class="mono">${e.subject}</td><td class="wrap">${e.reason}</td>`} /></section>`;
}
