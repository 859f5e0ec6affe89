// Studies of `dtfctl tune`: history, parallel coordinates, importance, trials.
import { html, useState, Table, State, number, since } from "./util.js";

const W = 860, H = 280, LEFT = 60, RIGHT = 30;
const place = (x, low, high, from, to) => high <= low ? (from + to) / 2 : from + (x - low) / (high - low) * (to - from);
const cut = (text) => text.length > 16 ? text.slice(0, 15) + "…" : text;
const best = (study, points) => points.reduce((a, b) => !a || (study.goal === "max" ? b.score > a.score : b.score < a.score) ? b : a, null);
const longest = (points) => { const most = Math.max(...points.map((p) => p.budget || 0)); return points.filter((p) => (p.budget || 0) === most); };
const told = (study, p) => `trial ${p.trial}: ${study.metric} ${number(p.score)}${p.budget ? ` after ${p.budget}` : ""}; ${Object.entries(p.settings).map(([k, v]) => `${k} ${typeof v === "number" ? number(v) : v}`).join(", ")}`;

// A line or dot is pointed at by mouse, or by the table below, whose rows can be reached by keys.
const Dot = ({ study, p, over, point, ...rest }) => html`<circle ...${rest} r=${over === p.trial ? 7 : 4} class=${over === p.trial ? "over" : ""} onPointerEnter=${() => point(p.trial)}><title>${told(study, p)}</title></circle>`;

function History({ study, over, point }) {
  const points = [...study.points].sort((a, b) => a.trial - b.trial), scores = points.map((p) => p.score);
  const low = Math.min(...scores), high = Math.max(...scores), last = Math.max(1, ...points.map((p) => p.trial));
  const x = (p) => place(p.trial, 0, last, LEFT, W - RIGHT), y = (s) => place(s, low, high, H - 30, 15);
  let line = "", held = null;
  for (const p of points) if (held === null || (study.goal === "max" ? p.score > held : p.score < held)) { line += held === null ? `M${x(p)},${y(p.score)}` : `H${x(p)}V${y(p.score)}`; held = p.score; }
  return html`<svg class="study" viewBox=${`0 0 ${W} ${H}`} role="img" aria-label=${`History: best ${study.metric} ${number(held)}`}>
    <path class="axis" d=${`M${LEFT},10V${H - 30}H${W - RIGHT}`} /><text x=${LEFT - 6} y="19" text-anchor="end">${number(high)}</text><text x=${LEFT - 6} y=${H - 30} text-anchor="end">${number(low)}</text>
    <text x=${LEFT} y=${H - 10}>0</text><text x=${W - RIGHT} y=${H - 10} text-anchor="end">trial ${last}</text><path class="best" d=${`${line}H${W - RIGHT}`} />
    ${points.map((p) => html`<${Dot} key=${p.trial} study=${study} p=${p} over=${over} point=${point} cx=${x(p)} cy=${y(p.score)} />`)}</svg>`;
}

function Parallel({ study, over, point }) {
  const scores = study.points.map((p) => p.score), low = Math.min(...scores), high = Math.max(...scores);
  const x = (i) => place(i, 0, study.axes.length, LEFT, W - LEFT), bottom = H - 50;
  const y = (axis, v) => axis.values ? place(axis.values.indexOf(v), 0, axis.values.length - 1, bottom, 18)
    : axis.log ? place(Math.log(v), Math.log(axis.low), Math.log(axis.high), bottom, 18) : place(v, axis.low, axis.high, bottom, 18);
  const good = (p) => { const part = high > low ? (p.score - low) / (high - low) : 0.5; return study.goal === "max" ? part : 1 - part; };
  const end = (axis, top) => axis.values ? String(axis.values[top ? axis.values.length - 1 : 0]) : number(top ? axis.high : axis.low);
  const ends = [...study.axes.map((a) => [a.name, end(a, false), end(a, true)]), [study.metric, number(low), number(high)]];
  return html`<svg class="study" viewBox=${`0 0 ${W} ${H}`} role="img" aria-label="Parallel coordinates; the table below has all of it">
    ${[...study.points].sort((a, b) => (a.trial === over) - (b.trial === over) || good(a) - good(b)).map((p) => html`<polyline key=${p.trial} class=${`line good-${Math.min(4, Math.floor(5 * good(p)))}${over === p.trial ? " over" : ""}`} onPointerEnter=${() => point(p.trial)}
      points=${[...study.axes.map((a, i) => `${x(i)},${y(a, p.settings[a.name])}`), `${x(study.axes.length)},${place(p.score, low, high, bottom, 18)}`].join(" ")}><title>${told(study, p)}</title></polyline>`)}
    ${ends.map(([name, from, to], i) => html`<g><path class="axis" d=${`M${x(i)},18V${bottom}`} /><text x=${x(i)} y=${bottom + 36} text-anchor="middle" font-weight="600">${cut(name)}</text><text x=${x(i)} y=${bottom + 17} text-anchor="middle">${cut(from)}</text><text x=${x(i)} y="12" text-anchor="middle">${cut(to)}</text></g>`)}</svg>`;
}

const Importance = ({ of }) => html`<table aria-label="Importance"><tbody>${Object.entries(of).sort((a, b) => b[1] - a[1]).map(([name, share]) => html`<tr><th scope="row">${name}</th><td class="wide"><span class="meter"><i style=${{ width: `${100 * share}%` }}></i></span></td><td class="num">${Math.round(100 * share)} %</td></tr>`)}</tbody></table>`;

export function Studies({ known, at }) {
  const studies = [...known.studies.values()].sort((a, b) => b.time - a.time);
  const [chosen, choose] = useState(at[1] || ""), [over, point] = useState(null);
  const study = studies.find((s) => s.name === chosen) || studies[0];
  if (!study) return html`<section class="card"><h2>Studies</h2><p class="empty">No study of this cluster yet: dtfctl tune SPACE SCRIPT</p></section>`;
  const top = study.points.length ? best(study, longest(study.points)) : null, sign = study.goal === "max" ? -1 : 1;
  return html`<section class="card"><header><h2>${study.title}</h2><${State} of=${study.over ? "done" : "running"} /><span class="spring"></span>
      ${studies.length > 1 && html`<select aria-label="Study" onChange=${(e) => choose(e.target.value)}>${studies.map((s) => html`<option value=${s.name} selected=${s === study}>${s.title} (${since(s.time)} ago)</option>`)}</select>`}</header>
      <p>${study.begun} of ${study.trials} trials${study.failed ? `, ${study.failed} failed` : ""}. ${study.over}</p>
      ${top && html`<p>Best: ${told(study, top)}. <a href=${`#/jobs/${encodeURIComponent(top.job)}`}>Its job</a></p>`}<p class="dim mono">${study.folder}</p></section>
    ${top && html`<section class="card"><h2>History</h2><div class="scroll"><${History} study=${study} over=${over} point=${point} /></div></section>
      <section class="card"><h2>Parallel coordinates</h2><div class="scroll"><${Parallel} study=${study} over=${over} point=${point} /></div></section>`}
    ${Object.keys(study.importance).length > 0 && html`<section class="card"><h2>Importance</h2><${Importance} of=${study.importance} /></section>`}
    <section class="card"><h2>Trials</h2><${Table} label="Trials" empty="None has a score yet." rows=${study.points.map((p) => ({ ...p, id: p.trial })).sort((a, b) => sign * (a.score - b.score))}
      head=${["Trial", ...study.axes.map((a) => `#${a.name}`), `#${study.metric}`, ...(study.budgeted ? ["#Budget"] : []), "Job"]}
      cells=${(p) => html`<th scope="row">${p.trial}</th>${study.axes.map((a) => html`<td class="num">${typeof p.settings[a.name] === "number" ? number(p.settings[a.name]) : String(p.settings[a.name])}</td>`)}<td class="num">${number(p.score)}</td>${study.budgeted && html`<td class="num">${p.budget}</td>`}
        <td><a href=${`#/jobs/${encodeURIComponent(p.job)}`} onFocus=${() => point(p.trial)} onPointerEnter=${() => point(p.trial)}>${p.job}</a></td>`} /></section>`;
}
