// The shell: lets in, follows the cluster, chooses the page.
import { render } from "./vendor/preact-htm.js";
import { html, useState, useEffect, useRef, shell, ask } from "./util.js";
import { follow, fresh, hear } from "./feed.js";
import { Cluster } from "./cluster.js";
import { Jobs, Job } from "./jobs.js";
import { Links, Events } from "./others.js";

// Pages that are large are loaded when they are first opened.
const later = (file, name) => {
  let View = null;
  return (props) => {
    const [, ready] = useState(0);
    useEffect(() => { if (!View) import(file).then((m) => { View = m[name]; ready(1); }); }, []);
    return View ? html`<${View} ...${props} />` : html`<p class="empty">One moment …</p>`;
  };
};
const Graph = later("./graph.js", "Graph"), Timeline = later("./timeline.js", "Timeline"), Draw = later("./draw.js", "Draw");
const Studies = later("./studies.js", "Studies");
const PAGES = [["cluster", "Cluster", Cluster], ["jobs", "Jobs", Jobs], ["graph", "Graph", Graph], ["timeline", "Timeline", Timeline],
  ["links", "Links", Links], ["events", "Events", Events], ["draw", "Draw", Draw], ["studies", "Studies", Studies]];

let known = fresh();
let tell = () => {};

function heard(told) {
  if (told.stranger) return stranger();
  known = hear(known, told);
  tell();
}
function stranger() {
  document.title = "dtfctl";
  render(html`<p class="lone">This page is for who has started it: open the address that <code>dtfctl dashboard</code> has printed.</p>`, root);
}

const route = () => location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);

function App() {
  const [, redraw] = useState(0), [at, go] = useState(route()), [, second] = useState(0);
  const [asked, setAsked] = useState(null), [said, setSaid] = useState(null);
  const main = useRef(null);
  useEffect(() => {
    let wanted = false;
    tell = () => { if (!wanted) { wanted = true; requestAnimationFrame(() => { wanted = false; redraw((n) => n + 1); }); } };
    const moved = () => { go(route()); main.current?.focus(); scrollTo(0, 0); };
    const typed = (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || /INPUT|SELECT|TEXTAREA/.test(e.target.tagName) || document.querySelector("dialog[open]")) return;
      const page = PAGES[+e.key - 1];
      if (page) location.hash = `#/${page[0]}`;
      if (e.key === "/") { const field = document.querySelector("input[type=search]"); if (field) { e.preventDefault(); field.focus(); } }
    };
    addEventListener("hashchange", moved);
    addEventListener("keydown", typed);
    const every = setInterval(() => second((n) => n + 1), 5000);
    shell.confirm = (question, label) => new Promise((answer) => setAsked({ question, label, answer }));
    shell.say = (text, bad) => { setSaid({ text, bad }); setTimeout(() => setSaid((now) => now && now.text === text ? null : now), bad ? 9000 : 3500); };
    follow(heard);
    return () => { removeEventListener("hashchange", moved); removeEventListener("keydown", typed); clearInterval(every); };
  }, []);
  const page = PAGES.find(([name]) => name === at[0]) || PAGES[0];
  const View = page[0] === "jobs" && at[1] ? Job : page[2];
  const { cluster, live } = known;
  document.title = cluster.name ? `${cluster.name}: ${page[1]} · dtfctl` : "dtfctl";
  return html`
    <a class="skip" href=${location.hash || "#/cluster"} onClick=${(e) => { e.preventDefault(); main.current.focus(); }}>To the content</a>
    <header><div class="bar">
      <div class="name"><img src="/static/icon.svg" alt="" /><h1>${cluster.name || "dtfctl"}</h1></div>
      <nav aria-label="Pages">${PAGES.map(([name, title], i) => html`<a href=${`#/${name}`} title=${`${title} (key ${i + 1})`}
        aria-current=${page[0] === name ? "page" : null}>${title}</a>`)}</nav>
      <div class=${"live" + (live && !cluster.away ? "" : " off")} role="status">${!live ? "not connected" : cluster.away || "live"}</div>
    </div></header>
    <main ref=${main} tabindex="-1">${known.version ? html`<${View} key=${at.slice(0, 2).join("/")} known=${known} at=${at} />` : html`<p class="empty">Asking the cluster …</p>`}</main>
    ${asked && html`<${Question} ...${asked} done=${(yes) => { asked.answer(yes); setAsked(null); }} />`}
    ${said && html`<div class=${"toast" + (said.bad ? " bad" : "")} role="alert">${said.text}</div>`}`;
}

function Question({ question, label, done }) {
  const box = useRef(null);
  useEffect(() => { box.current.showModal(); }, []);
  return html`<dialog ref=${box} onCancel=${(e) => { e.preventDefault(); done(false); }} aria-label=${label}>
    <h2>Sure?</h2><p>${question}</p>
    <form method="dialog"><button type="button" onClick=${() => done(false)} autofocus>No</button>
    <button type="button" class="main" onClick=${() => done(true)}>Yes, ${label}</button></form></dialog>`;
}

const root = document.getElementById("app");
const token = /^#token=(.+)$/.exec(location.hash);
async function begin() {
  if (token) {
    history.replaceState(null, "", "/#/cluster");
    try { await ask("/login", { token: token[1] }); } catch { return stranger(); }
  } else if (!(await ask("/api/me")).known) return stranger();
  root.textContent = "";
  render(html`<${App} />`, root);
}
begin();
