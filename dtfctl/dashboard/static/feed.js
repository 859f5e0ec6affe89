// What is known of the cluster, as the server tells it, and how a page hears of it.
const MOST_POINTS = 20000, MOST_EVENTS = 1000;
const KINDS = { task: "tasks", host: "hosts", job: "jobs", study: "studies" };

export const fresh = () => ({ cluster: {}, tasks: new Map(), hosts: new Map(), jobs: new Map(), studies: new Map(), events: [], points: new Map(),
  live: false, version: 0 });

// Give what is known after something was told: a new object, so that pages see what has changed.
export const hear = (known, told) => told.begin ?? (told.news ? merge(known, told.news) : { ...known, live: false });

function merge(known, news) {
  const now = { ...(news.all ? fresh() : known), live: true, version: news.v };
  for (const [kind, name, value] of news.set) {
    if (kind === "cluster") { now.cluster = value; continue; }
    const map = now[KINDS[kind]];
    if (value === null) map.delete(name); else map.set(name, value);
  }
  if (news.events.length) now.events = now.events.concat(news.events).slice(-MOST_EVENTS);
  for (const point of news.points) {
    if (!now.points.has(point.job)) now.points.set(point.job, []);
    const points = now.points.get(point.job);
    points.push(point);
    // Of a long training every other point stays.
    if (points.length > MOST_POINTS / 4) now.points.set(point.job, points.filter((_, i) => i % 2));
  }
  return now;
}

// Hear the server's stream: {news}, {lost} or {stranger} is told. Gives what ends it.
export function listen(tell) {
  let source, timer;
  const open = () => {
    let all = true;
    source = new EventSource("/api/stream");
    source.onopen = () => { all = true; };
    source.onmessage = (e) => {
      const news = JSON.parse(e.data);
      tell({ news: { ...news, all: all || news.all } });
      all = false;
    };
    source.onerror = () => {
      tell({ lost: true });
      // Else it asks again by itself.
      if (source.readyState === 2) timer = setTimeout(retry, 500);
    };
  };
  const retry = () => fetch("/api/me").then((answer) => answer.json())
    .then((me) => me.known ? open() : tell({ stranger: true }), () => { timer = setTimeout(retry, 1000); });
  open();
  return () => { clearTimeout(timer); source.close(); };
}

// Follow the cluster by the stream that all tabs of a browser share, as it has six connections to a server.
export function follow(tell) {
  if (!globalThis.SharedWorker) return alone(tell);
  const worker = new SharedWorker("/static/shared.js", { type: "module", name: "dtfctl" });
  worker.port.onmessage = (e) => tell(e.data);
  // A browser may have no workers that are modules.
  worker.onerror = () => { worker.port.close(); worker.onerror = null; alone(tell); };
  addEventListener("pagehide", () => worker.port.postMessage("gone"));
  // The worker has forgotten a page that is shown again as it was left.
  addEventListener("pageshow", (e) => e.persisted && location.reload());
}

// A stream of one's own, which who is not looked at leaves to others.
function alone(tell) {
  let end = null;
  const turned = () => {
    if (document.hidden) { end?.(); end = null; } else end ??= listen(tell);
  };
  document.addEventListener("visibilitychange", turned);
  turned();
}

// Wait for one of the places that further streams of this browser have: told(true) while it waits, told(false) when it has one. Gives what leaves it.
const PLACES = 3;
export function place(told) {
  let leave, timer, left = false;
  const held = new Promise((done) => { leave = () => { left = true; clearTimeout(timer); done(); }; });
  const seek = async () => {
    for (let i = 0; i < PLACES && !left; i++) {
      const had = await navigator.locks.request(`dtfctl-stream-${i}`, { ifAvailable: true }, async (lock) => {
        if (lock && !left) { told(false); await held; }
        return lock;
      });
      if (had) return;
    }
    if (left) return;
    told(true);
    timer = setTimeout(seek, 500);
  };
  if (navigator.locks) seek(); else told(false);
  return leave;
}
