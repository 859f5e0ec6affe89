// Jobs, and one job: progress, plots of what it reports, logs.
import { html, useState, useEffect, ask, State, Table, Act, Log, Plot, since, duration, clock, count, number, bytes } from "./util.js";

const took = (j) => j.started ? duration((j.ended || Date.now() / 1000) - j.started) : "–";
const said = (p) => p ? [p.total ? `step ${count(p.step)} of ${count(p.total)}` : `step ${count(p.step)}`, ...Object.entries(p.metrics).map(([k, v]) => `${k} ${number(v)}`)].join(", ") : "";
const Cancel = ({ job, small }) => job.final ? "" : html`<${Act} small=${small} verb="cancel" what=${job.id} question=${`Cancel ${job.id}? Its processes are told to end; it cannot be resumed under this id.`} />`;

export function Jobs({ known }) {
  const jobs = [...known.jobs.values()].sort((a, b) => b.submitted - a.submitted);
  return html`<section class="card"><h2>Jobs</h2>
    <${Table} label="Jobs" rows=${jobs} tick=${Math.floor(Date.now() / 5000)} empty="No jobs yet: dtfctl submit SCRIPT"
      head=${["Job", "State", "Progress", "#Took", "Submitted", "#Restarts", "Why", ""]}
      cells=${(j) => html`<th scope="row"><a href=${`#/jobs/${encodeURIComponent(j.id)}`}>${j.id}</a></th><td><${State} of=${j.state} /></td>
        <td class="wrap">${said(j.progress)}${j.position ? `place ${j.position} in the queue` : ""}</td><td class="num">${took(j)}</td><td>${since(j.submitted)} ago</td>
        <td class="num">${j.restarts}</td><td class="wrap">${j.reason}</td><td><${Cancel} job=${j} small /></td>`} /></section>`;
}

export function Job({ known, at }) {
  const job = known.jobs.get(at[1]);
  const [process, choose] = useState("");
  const before = useHistory(job);
  if (!job) return html`<p class="empty">There is no job ${at[1]}. <a href="#/jobs">All jobs</a></p>`;
  const points = known.points.get(job.id) || [], p = job.progress;
  const speed = rates(points), names = [...new Set([...Object.keys(before), ...points.flatMap((q) => Object.keys(q.metrics)), RATE])].filter((n) => n !== RATE).slice(0, 24);
  const plots = [...names, RATE].map((n) => [n, joined(before[n] || [], n === RATE ? speed.all : points.filter((q) => q.metrics[n] != null).map((q) => [q.step, q.metrics[n], q.time]))]);
  const last = speed.ys[speed.ys.length - 1];
  const left = p && p.total && last && !job.final ? (p.total - p.step) / last : null;
  return html`
    <section class="card"><header><a href="#/jobs" aria-label="All jobs">Jobs</a><span class="dim">/</span><h2>${job.id}</h2><${State} of=${job.state} /><span class="spring"></span>
      ${job.framework === "dtf" && html`<a href=${`#/graph/${encodeURIComponent(job.id)}`}>Graph</a>`}${!job.final && html`<a href=${`#/timeline/${encodeURIComponent(job.id)}`}>Timeline</a>`}<${Cancel} job=${job} /></header>
      ${job.reason && html`<p class=${job.state === "failed" ? "card problem" : "dim"}>${job.reason}</p>`}
      ${p && html`<div>${said(p)}${last && !job.final ? html`<span class="dim"> · ${number(last)} steps/s${left != null ? `, about ${duration(left)} left` : ""}</span>` : ""}</div>`}
      ${p && p.total && html`<div class="progress" role="progressbar" aria-valuenow=${p.step} aria-valuemin="0" aria-valuemax=${p.total} aria-label="Progress"><i style=${{ width: `${Math.min(100, 100 * p.step / p.total)}%` }}></i></div>`}
      <dl class="facts"><dt>Script</dt><dd class="mono">${[job.script, ...job.args].join(" ")}</dd><dt>Took</dt><dd>${took(job)}${job.restarts ? `, ${job.restarts} restarts` : ""}</dd>
        ${job.tasks.length > 0 && html`<dt>Tasks</dt><dd>${job.tasks.join(", ")}</dd>`}${job.checkpoint && html`<dt>Checkpoint</dt><dd>${job.checkpoint}</dd>`}
        ${job.exit_code != null && html`<dt>Exit code</dt><dd>${job.exit_code}</dd>`}</dl></section>
    ${plots.some(([, of]) => of.length) && html`<section class="card"><h2>What it reports</h2><div class="plots">
      ${plots.map(([n, of]) => of.length > (n === RATE ? 1 : 0) && html`<${Plot} key=${n} title=${n} xs=${of.map((q) => q[0])} ys=${of.map((q) => q[1])} />`)}</div></section>`}
    <section class="card"><header><h2>Output</h2><span class="spring"></span><select aria-label="Process" onChange=${(e) => choose(e.target.value)}>
      <option value="">all processes</option>${job.clients.map((c) => html`<option value=${`:${c.name}`}>${c.name}</option>`)}</select></header>
      <${Log} of=${`job:${job.id}${process}`} /></section>
    <section class="card"><h2>Processes</h2><${Table} label="Processes" rows=${job.clients} head=${["Process", "State", "Host", "#Memory", "#Restarts", "Progress", "Why"]} empty="None run."
      cells=${(c) => html`<th scope="row" class="mono">${c.name}</th><td><${State} of=${c.state} /></td><td>${c.host}</td><td class="num">${bytes(c.rss_bytes)}</td><td class="num">${c.restarts}</td><td>${said(c.progress)}</td><td class="wrap">${c.last_error}</td>`} /></section>`;
}

const RATE = "steps/s", EVERY_MS = 10000;

// What a job has told its event files since it began: [step, value, time] by name; again now and then, as scripts write scalars of their own.
function useHistory(job) {
  const [found, set] = useState({}), id = job?.id, over = job?.final;
  useEffect(() => {
    if (!id) return;
    let left = false, timer;
    const look = () => {
      const next = () => { if (!left && !over) timer = setTimeout(look, EVERY_MS); };
      // One that has written nothing yet has no history.
      if (document.hidden) next(); else ask(`/api/scalars?job=${encodeURIComponent(id)}`).then((all) => { if (!left) set(all); }, () => {}).then(next);
    };
    look();
    return () => { left = true; clearTimeout(timer); };
  }, [id, over]);
  return found;
}
// The history, then what came since; what is done again after a restart is drawn as it was the last time.
function joined(before, live) {
  const begun = live.length ? live[0][2] : Infinity, all = new Map();
  for (const q of before) if (q[2] < begun) all.set(q[0], q);
  for (const q of live) all.set(q[0], q);
  return [...all.values()].sort((a, b) => a[0] - b[0]);
}

// Steps a second between points that are a second apart at least.
function rates(points) {
  const all = [];
  let from = points[0];
  for (const p of points) {
    if (p.step < from.step) from = p;
    else if (p.time - from.time >= 1) { all.push([p.step, (p.step - from.step) / (p.time - from.time), p.time]); from = p; }
  }
  return { all, ys: all.map((q) => q[1]) };
}
