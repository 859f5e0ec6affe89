// The worker that all tabs of a browser share: it follows the cluster once.
import { fresh, hear, listen } from "./feed.js";

const pages = new Set();
let known = fresh();

listen((told) => {
  known = hear(known, told);
  for (const page of pages) page.postMessage(told);
  // Who logs in later begins with a new one.
  if (told.stranger) close();
});

onconnect = ({ ports: [page] }) => {
  pages.add(page);
  page.onmessage = () => pages.delete(page);
  page.postMessage({ begin: known });
};
