// Draw a digit and ask the model of a job: by the TypeScript client, over this page's own server.
import { html, useState, useEffect, useRef, ask, duration } from "./util.js";
import { ConnectTransport, Graph, Session, Tensor, importGraph } from "./client.js";

const SIDE = 280, PEN = 28, STEP = 14, WAIT_MS = 60000, MOST_SHOWN = 10;
// What a pixel without ink is, and one that is all ink.
const RANGES = { "0 to 1": [0, 1], "0 to 255": [0, 255], "-1 to 1": [-1, 1], "1 to 0 (black on white)": [1, 0], "255 to 0 (black on white)": [255, 0] };

// How a picture of some shape lies in memory; as `sides_of` of dtfctl/runtime/inspect/pictures.py.
function layout(shape) {
  const [a, b, c] = shape;
  if (shape.length === 1) { const side = Math.round(Math.sqrt(a)); return { height: side, width: side, channels: 1, planes: false }; }
  if (shape.length === 2) return { height: a, width: b, channels: 1, planes: false };
  return c === 1 || c === 3 ? { height: a, width: b, channels: c, planes: false } : { height: b, width: c, channels: a, planes: true };
}

// A session with the master of a job, in which the job's own graph is asked.
class Model {
  static async of(job) {
    const found = await ask(`/api/picture?job=${encodeURIComponent(job)}`), graph = new Graph(), model = new Model();
    importGraph(graph, Uint8Array.from(atob(found.graph), (letter) => letter.charCodeAt(0)));
    model.transport = new ConnectTransport(`/rpc/${encodeURIComponent(job)}/${found.task}`);
    model.session = new Session(graph, model.transport, { timeoutMs: WAIT_MS, config: { allowSoftPlacement: true, deviceFilters: found.tasks } });
    return Object.assign(model, found, layout(found.shape));
  }
  // Ink of each pixel, 0 to 1, to chances of each class.
  async ask(ink, range, signal) {
    const [none, full] = RANGES[range], { height, width, channels, planes, shape } = this, size = height * width;
    const pixels = Float32Array.from({ length: size * channels }, (_, i) => none + (full - none) * ink[planes ? i % size : Math.floor(i / channels)]);
    const found = await this.session.run(this.output, { [this.input]: new Tensor("float32", [1, ...shape], pixels) }, { signal });
    if (found.shape.length !== 2 || found.shape[0] !== 1 || found.shape[1] < 2) throw new Error(`${this.output} gives [${found.shape}] for a picture, no score for each class`);
    return chances([...found.toFloat32()]);
  }
  close() { this.session.close({ timeoutMs: 2000 }).catch(() => {}).finally(() => this.transport.close()); }
}
// Some models give chances, others what a softmax makes chances of.
function chances(scores) {
  const sum = scores.reduce((a, b) => a + b, 0);
  if (scores.every((s) => s >= 0) && Math.abs(sum - 1) < 1e-3) return scores;
  const most = Math.max(...scores), powers = scores.map((s) => Math.exp(s - most)), all = powers.reduce((a, b) => a + b, 0);
  return powers.map((p) => p / all);
}

// How much of each pixel is inked. Fitted, strokes are as large as those of the usual digits: as the picture where that is small, else 20 of 28 rows.
function inkOf(canvas, { height, width }, fitted) {
  const { data } = canvas.getContext("2d", { willReadFrequently: true }).getImageData(0, 0, SIDE, SIDE);
  const inked = (x, y) => x >= 0 && x < SIDE && y >= 0 && y < SIDE && data[4 * (y * SIDE + x) + 3] > 127;
  let left = SIDE, right = 0, top = SIDE, bottom = 0;
  for (let y = 0; y < SIDE; y++) for (let x = 0; x < SIDE; x++) if (inked(x, y)) { left = Math.min(left, x); right = Math.max(right, x + 1); top = Math.min(top, y); bottom = Math.max(bottom, y + 1); }
  const ink = new Float32Array(height * width);
  if (right <= left) return ink;
  const margin = Math.min(height, width) >= 20 ? 20 / 28 : 1;
  const scale = fitted ? Math.max((right - left) / (width * margin), (bottom - top) / (height * margin)) : SIDE / Math.max(height, width);
  const x0 = (fitted ? (left + right) / 2 : SIDE / 2) - scale * width / 2, y0 = (fitted ? (top + bottom) / 2 : SIDE / 2) - scale * height / 2;
  const parts = 8;
  for (let i = 0; i < ink.length; i++) for (let j = 0; j < parts; j++) for (let k = 0; k < parts; k++) {
    const x = x0 + scale * (i % width + (k + 0.5) / parts), y = y0 + scale * (Math.floor(i / width) + (j + 0.5) / parts);
    if (inked(Math.floor(x), Math.floor(y))) ink[i] += 1 / (parts * parts);
  }
  return ink;
}

// What the model gets to see.
function show(canvas, ink, { height, width }) {
  canvas.width = width; canvas.height = height;
  const brush = canvas.getContext("2d"), picture = brush.createImageData(width, height);
  ink.forEach((share, i) => picture.data.set([47, 111, 237, Math.round(255 * share)], 4 * i));
  brush.putImageData(picture, 0, 0);
}

const ARROWS = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };
const within = (x) => Math.min(SIDE - PEN / 2, Math.max(PEN / 2, x));

function Paper({ paper, changed, cleared }) {
  const [spot, move] = useState([SIDE / 2, SIDE / 4]), pen = useRef(null);
  const line = (from, to) => {
    const brush = paper.current.getContext("2d", { willReadFrequently: true });
    brush.strokeStyle = "#2f6fed"; brush.lineWidth = PEN; brush.lineCap = brush.lineJoin = "round";
    brush.beginPath(); brush.moveTo(...from); brush.lineTo(to[0] + 0.01, to[1]); brush.stroke();
  };
  const place = (e) => { const r = paper.current.getBoundingClientRect(); return [(e.clientX - r.left) * SIDE / r.width, (e.clientY - r.top) * SIDE / r.height]; };
  const down = (e) => { if (pen.current || e.button > 0) return; e.target.setPointerCapture(e.pointerId); pen.current = { id: e.pointerId, at: place(e) }; line(pen.current.at, pen.current.at); };
  const moved = (e) => { if (pen.current?.id !== e.pointerId) return; const to = place(e); line(pen.current.at, to); pen.current.at = to; };
  const up = (e) => { if (pen.current?.id !== e.pointerId) return; move(pen.current.at.map(within)); pen.current = null; changed(); };
  const pressed = (e) => {
    const by = ARROWS[e.key];
    if (by) {
      e.preventDefault();
      const to = [within(spot[0] + by[0]), within(spot[1] + by[1])];
      if (!e.shiftKey) line(spot, to);
      move(to);
    } else if (e.key === "Delete" || e.key === "Backspace") { e.preventDefault(); cleared(); }
  };
  const released = (e) => { if (ARROWS[e.key] && !e.shiftKey) changed(); };
  return html`<div class="sheet"><canvas class="paper" ref=${paper} width=${SIDE} height=${SIDE} tabindex="0" role="application" aria-describedby="how"
    aria-label="Paper" onKeyDown=${pressed} onKeyUp=${released} onPointerDown=${down} onPointerMove=${moved} onPointerUp=${up} onPointerCancel=${up}></canvas>
    <i class="pen" style=${{ left: `${100 * spot[0] / SIDE}%`, top: `${100 * spot[1] / SIDE}%` }}></i></div>`;
}

function Chances({ of }) {
  const order = of.map((_, i) => i), shown = of.length > MOST_SHOWN ? order.sort((a, b) => of[b] - of[a]).slice(0, MOST_SHOWN) : order;
  const best = of.indexOf(Math.max(...of));
  return html`<table aria-label="Chances"><tbody>${shown.map((i) => html`<tr key=${i} class=${i === best ? "best" : ""}><th scope="row">${i}</th>
    <td class="wide"><span class="meter"><i style=${{ width: `${100 * of[i]}%` }}></i></span></td><td class="num">${(100 * of[i]).toFixed(1)} %</td></tr>`)}</tbody></table>`;
}

export function Draw({ known, at }) {
  const jobs = [...known.jobs.values()].filter((j) => j.state === "running" && j.framework === "dtf").map((j) => j.id);
  const [chosen, choose] = useState(at[1] || ""), [range, setRange] = useState("0 to 1"), [fitted, fit] = useState(true);
  const [answer, tell] = useState(null), [why, fail] = useState(""), [model, found] = useState(null), [busy, work] = useState(false);
  const job = jobs.includes(chosen) ? chosen : chosen && at[1] === chosen ? "" : jobs[0] ?? "";
  const paper = useRef(null), seen = useRef(null), asked = useRef(null), way = useRef(null), wished = useRef(null);
  // As it is now, also for who has waited for the model since.
  wished.current = { range, fitted };
  const meet = () => {
    const mine = Model.of(job);
    way.current = mine;
    mine.then((one) => { if (way.current === mine) { found(one); fail(""); } }, (e) => { if (way.current === mine) { way.current = null; fail(e.message); } });
    return mine;
  };
  const leave = () => { asked.current?.abort(); way.current?.then((one) => one.close(), () => {}); way.current = null; };
  useEffect(() => {
    found(null); tell(null); fail("");
    if (job) meet().then(question, () => {});
    return leave;
  }, [job]);
  const question = async () => {
    asked.current?.abort();
    const mine = asked.current = new AbortController();
    work(true);
    try {
      const one = await (way.current ?? meet()), ink = inkOf(paper.current, one, wished.current.fitted);
      if (mine.signal.aborted) return;
      show(seen.current, ink, one);
      if (!ink.some((share) => share > 0)) { tell(null); return; }
      const began = performance.now(), chances = await one.ask(ink, wished.current.range, mine.signal);
      if (!mine.signal.aborted) { tell({ chances, ms: performance.now() - began }); fail(""); }
    } catch (error) {
      if (mine.signal.aborted) return;
      // The job has ended, or serves another version: who asks again asks for its graph first.
      fail(error.message); tell(null); leave();
    } finally {
      if (asked.current === mine) work(false);
    }
  };
  useEffect(() => { if (paper.current && way.current) question(); }, [range, fitted]);
  const clear = () => { paper.current.getContext("2d").clearRect(0, 0, SIDE, SIDE); question(); };
  const said = answer && answer.chances.indexOf(Math.max(...answer.chances));
  if (!job) return html`<section class="card"><h2>Draw a digit</h2><p class="empty">${chosen ? `${chosen} does not run.` : "No job runs that could be asked."} A training that can be asked while it learns:</p>
    <p class="mono">dtfctl submit examples/digits_mlp.py --steps 1000000</p><p class="empty">What a job has learned and saved, in its checkpoints' folder:</p>
    <p class="mono">dtfctl serve FOLDER --inputs images --outputs logits/BiasAdd</p></section>`;
  return html`<section class="card"><header><h2>Draw a digit</h2><span class="spring"></span>
      <select aria-label="Job" onChange=${(e) => choose(e.target.value)}>${jobs.map((id) => html`<option value=${id} selected=${id === job}>${id}</option>`)}</select></header>
    ${why && html`<p class="problem note" role="alert">${why}</p>`}
    <div class="two"><div><${Paper} paper=${paper} changed=${question} cleared=${clear} />
      <p class="dim" id="how">With mouse, pen or finger. With keys: arrows draw, Shift and arrows move the pen, Delete clears.</p>
      <p class="stages"><button onClick=${clear}>Clear</button><button onClick=${question}>Ask again</button>
        <label>Pixels <select onChange=${(e) => setRange(e.target.value)}>${Object.keys(RANGES).map((name) => html`<option selected=${name === range}>${name}</option>`)}</select></label>
        <label class="check"><input type="checkbox" checked=${fitted} onChange=${(e) => fit(e.target.checked)} /> fitted</label></p></div>
    <div><p role="status" aria-busy=${busy}>${answer ? html`<b class="said">${said}</b> <span class="dim">asked in ${answer.ms < 1000 ? `${Math.round(answer.ms)} ms` : duration(answer.ms / 1000)}</span>`
        : html`<span class="dim">${why ? "" : model ? "Draw something." : "Asking for the graph …"}</span>`}</p>
      ${answer && html`<${Chances} of=${answer.chances} />`}
      <p class="seen"><canvas ref=${seen} width="1" height="1" role="img" aria-label="What the model sees"></canvas>
        <span class="dim">${model && html`What it sees: ${model.input}, ${model.width} x ${model.height}${model.channels > 1 ? ` x ${model.channels}` : ""}. What it says: ${model.output}, by the weights as they are now, at ${model.task}.`}</span></p></div></div></section>`;
}
