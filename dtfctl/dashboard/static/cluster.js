// The cluster at a glance: problems, tasks, hosts.
import { html, useState, State, Table, Act, Meter, bytes, duration, since, count } from "./util.js";

// What the hosts are lent by, and for how long yet.
const LENT = { queued: "warn", granted: "", ended: "bad" };
function lease({ state, why, ends, starts }) {
  const now = Date.now() / 1000;
  if (state === "granted") return ends ? `${duration(ends - now)} left` : "no time limit";
  if (state === "ended") return "ended";
  return starts > now ? `begins in ${duration(starts - now)}` : "waits";
}
export function Cluster({ known }) {
  const { cluster } = known, tasks = [...known.tasks.values()], hosts = [...known.hosts.values()], jobs = [...known.jobs.values()];
  const [text, find] = useState("");
  const restarts = tasks.reduce((n, t) => n + t.restarts, 0), up = hosts.filter((h) => h.state === "up").length;
  const shown = tasks.filter((t) => !text || `${t.name} ${t.host} ${t.state} ${t.last_error}`.toLowerCase().includes(text.toLowerCase()));
  return html`
    <div class="tiles">
      <div class=${"tile " + (cluster.healthy ? "good" : "bad")}><b>${cluster.healthy ? "healthy" : "not well"}</b><span>${cluster.name}, up ${since(cluster.created)}</span></div>
      <div class=${"tile " + (cluster.running < cluster.tasks ? "warn" : "")}><b>${cluster.running} / ${cluster.tasks}</b><span>tasks run</span></div>
      <div class=${"tile " + (up < hosts.length ? "warn" : "")}><b>${up} / ${hosts.length}</b><span>hosts up</span></div>
      <div class="tile"><b>${jobs.filter((j) => !j.final && j.state !== "queued").length}</b><span>jobs run, ${jobs.filter((j) => j.state === "queued").length} queued</span></div>
      ${cluster.grant && html`<div class=${"tile " + LENT[cluster.grant.state]}><b>${lease(cluster.grant)}</b><span>${cluster.grant.what}${cluster.grant.why ? `: ${cluster.grant.why}` : ""}</span></div>`}
      <div class=${"tile " + (restarts ? "warn" : "")}><b>${count(restarts)}</b><span>restarts of tasks</span></div>
    </div>
    ${cluster.problems?.length > 0 && html`<section class="card problem" role="alert"><h2>What is wrong</h2><ul>${cluster.problems.map((p) => html`<li>${p}</li>`)}</ul></section>`}
    ${cluster.notes?.length > 0 && html`<section class="card note"><h2>Good to know</h2>${cluster.notes.map((p) => html`<div>${p}</div>`)}</section>`}
    ${cluster.advice?.length > 0 && html`<section class="card note"><h2>What would be faster</h2><ul>${cluster.advice.map((p) => html`<li>${p}</li>`)}</ul></section>`}
    <section class="card"><header><h2>Tasks</h2><span class="spring"></span>
      <input type="search" placeholder="Find ( / )" aria-label="Find tasks" value=${text} onInput=${(e) => find(e.target.value)} /></header>
      <${Table} label="Tasks" rows=${shown} tick=${Math.floor(Date.now() / 5000)} empty=${text ? "No task is like that." : "No tasks."}
        head=${["Task", "State", "Host", "#Up", "#Restarts", "#CPU", "#Memory", "#Steps", "Why", ""]}
        cells=${(t) => html`<th scope="row"><span class="mono">${t.name}</span></th>
          <td><${State} of=${t.state === "running" && t.health === "suspect" ? "suspect" : t.state} />${t.silent ? html` <span class="dim">silent ${t.silent} s</span>` : ""}</td>
          <td>${t.host}</td><td class="num">${t.state === "running" ? since(t.started) : "–"}</td><td class="num">${t.restarts}</td>
          <td class="num">${t.cpu_percent == null ? "–" : `${Math.round(t.cpu_percent)} %`}</td><td class="num">${bytes(t.rss_bytes)}</td><td class="num">${count(t.steps)}</td>
          <td class="wrap">${t.last_error}${t.retry ? `, next try in ${t.retry} s` : ""}</td>
          <td><${Act} verb="restart" what=${t.name} question=${`Restart ${t.name}? Its process ends and starts again; jobs go on from their newest checkpoint.`} /></td>`} /></section>
    <section class="card"><h2>Hosts</h2>
      <${Table} label="Hosts" rows=${hosts} head=${["Host", "State", "#Tasks", "Load", "Memory", "#Disk free", "#GPUs", "Why", ""]}
        cells=${(h) => html`<th scope="row">${h.name}</th><td><${State} of=${h.state} /></td><td class="num">${h.tasks}</td>
          <td>${h.load == null ? "–" : html`<${Meter} share=${h.load / (h.cores || 1)} text=${`${h.load.toFixed(1)} of ${h.cores} cores`} />`}</td>
          <td>${h.memory_bytes ? html`<${Meter} share=${1 - h.memory_free_bytes / h.memory_bytes} text=${`${bytes(h.memory_free_bytes)} free`} />` : "–"}</td>
          <td class="num">${bytes(h.disk_free_bytes)}</td><td class="num">${h.gpus}</td><td class="wrap">${h.note || h.last_error || h.stage}</td>
          <td>${h.state === "drained" ? html`<${Act} verb="undrain" what=${h.name} danger=${false} question=${`Put ${h.name} back into use?`} />`
            : h.state === "quarantined" ? html`<${Act} verb="release" what=${h.name} danger=${false} question=${`End the quarantine of ${h.name} now?`} />`
            : html`<${Act} verb="drain" what=${h.name} question=${`Drain ${h.name}? Its ${h.tasks} tasks are stopped gently and start elsewhere where there is room.`} />`}</td>`} />
      <p class="dim">Controller ${cluster.version}, its ${cluster.epoch === 1 ? "first start" : `start number ${cluster.epoch}`}.</p></section>`;
}
