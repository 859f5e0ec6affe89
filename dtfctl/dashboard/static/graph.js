// A job's graph: by task and name scope, stage by stage; scopes open and close, the picture moves and zooms.
import { html, useState, useEffect, useRef, ask, count, shell } from "./util.js";

const MOST_BOXES = 48;

// The box of a node: its own name, or the outermost closed scope around it. Each task has its own.
function boxOf(node, open) {
  const parts = node.name.split("/");
  let scope = "";
  for (let i = 0; i < parts.length - 1; i++) {
    scope += parts[i] + "/";
    if (!open.has(scope)) return { id: `${node.task} ${scope}`, scope, task: node.task };
  }
  return { id: `${node.task} ${node.name}`, node, task: node.task };
}

// Scopes are opened from the outside in, as long as what is shown stays readable.
function opened(nodes) {
  const open = new Set();
  for (let depth = 0; depth < 6; depth++) {
    const next = new Set(open);
    for (const n of nodes) { const parts = n.name.split("/"); if (parts.length > depth + 1) next.add(parts.slice(0, depth + 1).join("/") + "/"); }
    if (next.size === open.size || new Set(nodes.map((n) => boxOf(n, next).id)).size > MOST_BOXES) break;
    next.forEach((s) => open.add(s));
  }
  return open;
}

function layout(dagre, nodes, transfers, open) {
  const g = new dagre.Graph({ compound: true, multigraph: true }).setGraph({ rankdir: "TB", nodesep: 14, ranksep: 30, marginx: 12, marginy: 26 }).setDefaultEdgeLabel(() => ({}));
  const boxes = new Map(), of = new Map(), tasks = new Set();
  for (const n of nodes) {
    const box = boxOf(n, open);
    if (!boxes.has(box.id)) boxes.set(box.id, { ...box, held: [] });
    boxes.get(box.id).held.push(n);
    of.set(n.name, box.id);
    tasks.add(n.task);
  }
  for (const t of tasks) g.setNode(`task ${t}`, { task: t });
  for (const b of boxes.values()) {
    // A scope of one node is no shorter than the node.
    if (b.scope && b.held.length === 1) { b.node = b.held[0]; b.scope = ""; }
    b.title = b.node ? b.node.name.split("/").pop() : b.scope;
    b.sub = b.node ? `${b.node.op} ${b.node.types}` : held(b.held.length);
    b.width = Math.min(220, Math.max(70, Math.max(6.8 * b.title.length, 6 * b.sub.length) + 18));
    b.height = 36;
    g.setNode(b.id, b);
    g.setParent(b.id, `task ${b.task}`);
  }
  const edges = new Map();
  const edge = (from, to, kind) => {
    if (from && to && from !== to && !edges.has(`${from}|${to}`)) { edges.set(`${from}|${to}`, kind); g.setEdge(from, to, { kind }); }
  };
  for (const t of transfers) edge(of.get(t.send), of.get(t.receive), "transfer");
  for (const n of nodes) {
    for (const i of n.inputs) edge(of.get(i.slice(0, i.lastIndexOf(":"))), of.get(n.name), "data");
    for (const c of n.controls) edge(of.get(c), of.get(n.name), "control");
  }
  dagre.layout(g);
  return { g, boxes: [...boxes.values()], tasks: [...tasks] };
}

// Other stages that changed nothing are told as such.
const SAID = new Set(["given", "placed", "pruned", "partitioned"]);
const held = (n) => `${n} node${n === 1 ? "" : "s"}`;
const sized = ([, nodes, why, did]) => `${why}. ${nodes.replace(/^\d+/, held)}${did ? `; ${did}` : ""}.`;
const cut = (text, width, letter) => text.length * letter <= width - 10 ? text : text.slice(0, Math.max(3, Math.floor((width - 16) / letter))) + "…";

function Picture({ dagre, nodes, transfers, open, toggle, picked, pick }) {
  const { g, boxes, tasks } = layout(dagre, nodes, transfers, open);
  const { width, height } = g.graph();
  const [view, look] = useState(null);
  const at = useRef(null), drag = useRef(null);
  const whole = [0, 0, Math.max(width, 200), Math.max(height, 150)];
  // At first as large as can be read: all of its width where that is so, from the top.
  const [first, start] = useState(null);
  useEffect(() => { const r = at.current.getBoundingClientRect(), wide = Math.min(Math.max(width, r.width / 1.15), r.width * (r.width < 600 ? 2.2 : 1.25)); start([Math.min(0, (width - wide) / 2), 0, wide, Math.min(Math.max(height, 150), wide * r.height / r.width)]); look(null); }, [nodes]);
  const [x, y, w, h] = view || first || whole;
  const zoom = (f, px = 0.5, py = 0.5) => look([x + w * px * (1 - f), y + h * py * (1 - f), w * f, h * f]);
  useEffect(() => {
    // A wheel that moves the picture must not move the page, which only such a listener can say.
    const wheel = (e) => { e.preventDefault(); const r = at.current.getBoundingClientRect(); zoom(e.deltaY > 0 ? 1.15 : 0.87, (e.clientX - r.left) / r.width, (e.clientY - r.top) / r.height); };
    at.current.addEventListener("wheel", wheel, { passive: false });
    return () => at.current?.removeEventListener("wheel", wheel);
  });
  const moved = (e) => {
    if (!drag.current) return;
    const r = at.current.getBoundingClientRect(), s = Math.max(w / r.width, h / r.height);
    look([drag.current.x - (e.clientX - drag.current.cx) * s, drag.current.y - (e.clientY - drag.current.cy) * s, w, h]);
  };
  const keyed = (e) => {
    const by = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[e.key];
    if (by) { e.preventDefault(); look([x + w * by[0], y + h * by[1], w, h]); }
    else if (e.key === "+") zoom(0.8); else if (e.key === "-") zoom(1.25); else if (e.key === "0") look(whole);
  };
  const line = (points) => "M" + points.map((p) => `${p.x.toFixed(1)},${p.y.toFixed(1)}`).join("L");
  return html`<div class="stages" role="group" aria-label="View"><button onClick=${() => zoom(0.8)} aria-label="Closer">+</button><button onClick=${() => zoom(1.25)} aria-label="Farther">−</button><button onClick=${() => look(whole)}>Whole</button>
      <span class="legend"><span><i class="g-scope"></i>a name scope, opens with a click</span><span><i class="g-cross"></i>sends or receives, red from task to task</span><span><i class="g-control"></i>dashed: only waits</span></span></div>
    <svg class="canvas" ref=${at} viewBox=${[x, y, w, h].join(" ")} tabindex="0" role="group" aria-label="Graph" onKeyDown=${keyed}
      onPointerDown=${(e) => { drag.current = { x, y, cx: e.clientX, cy: e.clientY }; }} onPointerMove=${moved} onPointerUp=${() => { drag.current = null; }} onPointerLeave=${() => { drag.current = null; }}>
    <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0,0L8,4L0,8" /></marker><marker id="cross" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path class="transfer" d="M0,0L8,4L0,8" /></marker></defs>
    ${tasks.map((t) => { const b = g.node(`task ${t}`); return b.width && html`<g><rect class="box" x=${b.x - b.width / 2} y=${b.y - b.height / 2} width=${b.width} height=${b.height} rx="10" />
      <text x=${b.x - b.width / 2 + 10} y=${b.y - b.height / 2 - 6} font-weight="600" font-size="12">${t || "anywhere"}</text></g>`; })}
    ${g.edges().map((e) => { const d = g.edge(e); return d.points && html`<path class=${d.kind} d=${line(d.points)} marker-end=${d.kind === "transfer" ? "url(#cross)" : "url(#head)"} />`; })}
    ${boxes.map((b) => { const does = () => b.scope ? toggle(b.scope) : pick(b.node);
      const kind = b.scope ? "scope" : /^_(Host)?(Send|Recv)$/.test(b.node.op) ? "cross" : "";
      return html`<g class=${`node ${kind}${picked && b.node === picked ? " picked" : ""}`} key=${b.id} transform=${`translate(${b.x - b.width / 2},${b.y - b.height / 2})`} tabindex="0" role="button"
        aria-label=${b.scope ? `open ${b.scope}, ${held(b.held.length)}` : `${b.node.name}, ${b.node.op}`} onClick=${does} onKeyDown=${(e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); e.stopPropagation(); does(); } }}>
        <title>${b.scope || b.node.name}</title><rect width=${b.width} height=${b.height} rx="7" />
        <text x=${b.width / 2} y="15" text-anchor="middle" font-size="11.5">${cut(b.title, b.width, 6.5)}</text><text class="sub" x=${b.width / 2} y="28" text-anchor="middle">${cut(b.sub, b.width, 5.8)}</text></g>`; })}</svg>`;
}

const About = ({ row: [, nodes, why, did], found }) => html`<dl class="facts"><dt>Graph</dt><dd>${found.graph}</dd><dt>This stage</dt><dd>${why}</dd><dt>Nodes</dt><dd>${nodes}</dd>
    ${did && html`<dt>Changed</dt><dd>${did}</dd>`}<dt>Step</dt><dd class="mono">${found.step}</dd></dl>`;

export function Graph({ known, at }) {
  const jobs = [...known.jobs.values()].filter((j) => !j.final && j.state !== "queued" && j.framework === "dtf");
  const job = at[1] || jobs[0]?.id || "";
  const [stage, setStage] = useState("partitioned"), [found, set] = useState(null), [why, fail] = useState(""), [open, setOpen] = useState(new Set()), [picked, pick] = useState(null);
  const [dagre, load] = useState(null);
  useEffect(() => { import("./vendor/dagre.js").then((m) => load(() => m.default.layout ? { ...m, layout: m.default.layout, Graph: m.Graph } : m)); }, []);
  useEffect(() => {
    if (!job) return;
    let over = false;
    set(null); fail(""); pick(null);
    ask(`/api/graph?job=${encodeURIComponent(job)}&stage=${encodeURIComponent(stage)}`).then((f) => { if (!over) { set(f); setOpen(opened(f.nodes)); } }, (e) => { if (!over) fail(e.message); });
    return () => { over = true; };
  }, [job, stage]);
  const toggle = (scope) => { const next = new Set(open); next.has(scope) ? next.delete(scope) : next.add(scope); setOpen(next); };
  if (!job) return html`<section class="card"><h2>Graph</h2><p class="empty">No job runs. While one does, its graph can be looked at here; that of a file with: dtfctl graph FILE</p></section>`;
  return html`<section class="card"><header><h2>Graph of</h2>
      <select aria-label="Job" onChange=${(e) => { location.hash = `#/graph/${encodeURIComponent(e.target.value)}`; }}>${(jobs.some((j) => j.id === job) ? jobs : [{ id: job }, ...jobs]).map((j) => html`<option selected=${j.id === job}>${j.id}</option>`)}</select>
      <span class="spring"></span>${open.size > 0 && html`<button class="small" onClick=${() => setOpen(new Set())}>Close all scopes</button>`}</header>
    ${why && html`<p class="empty" role="alert">${why}</p>`}${!why && (!found || !dagre) && html`<p class="empty">Compiling the graph as the job's tasks do …</p>`}
    ${found && dagre && html`<div class="stages" role="group" aria-label="Stage">${found.overview.map((row) => html`<button aria-pressed=${row[0] === stage} class=${row[3] || SAID.has(row[0]) ? "" : "dim"} title=${sized(row)} onClick=${() => setStage(row[0])}>${row[0]}</button>`)}</div>
      <${About} row=${found.overview.find(([n]) => n === stage)} found=${found} />
      <${Picture} dagre=${dagre} nodes=${found.nodes} transfers=${found.transfers} open=${open} toggle=${toggle} picked=${picked} pick=${pick} />
      ${picked && html`<dl class="facts"><dt>Node</dt><dd class="mono">${picked.name}</dd><dt>Op</dt><dd>${picked.op} ${picked.types}</dd><dt>Device</dt><dd class="mono">${picked.device || "any"}</dd>
        ${picked.other && html`<dt>Other end</dt><dd>${picked.other}</dd>`}<dt>Inputs</dt><dd class="mono">${[...picked.inputs, ...picked.controls.map((c) => "^" + c)].join(", ") || "none"}</dd>
        ${picked.name.includes("/") && html`<dt>Scopes</dt><dd>${picked.name.split("/").slice(0, -1).map((_, i, parts) => { const s = parts.slice(0, i + 1).join("/") + "/"; return open.has(s) && html`<button class="small" onClick=${() => { pick(null); toggle(s); }}>close ${s}</button> `; })}</dd>`}</dl>`}`}</section>
    ${found && found.transfers.length > 0 && html`<section class="card"><h2>${found.transfers.length} Send/Receive pair${found.transfers.length === 1 ? "" : "s"}</h2><p class="dim">Each edge from one task's node to another's is cut: one task sends, the other receives. ^ is an edge without a value, which only says that a node has run.</p><div class="scroll" tabindex="0" role="region" aria-label="Transfers"><table><thead><tr><th scope="col">From</th><th scope="col">To</th><th scope="col">Tensor</th><th scope="col">Type</th><th scope="col">Sent by</th><th scope="col">Received by</th></tr></thead>
      <tbody>${found.transfers.map((t) => html`<tr><td>${t.from}</td><td>${t.to}</td><td class="mono wrap">${t.tensor}</td><td class="mono">${t.types}</td><td class="mono wrap">${t.send}</td><td class="mono wrap">${t.receive}</td></tr>`)}</tbody></table></div></section>`}`;
}
