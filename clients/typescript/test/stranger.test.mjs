// A task of a cluster (SERVER, of CLUSTER) and a client that cannot prove who it is, or takes it for another task.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Graph, GrpcTransport, Session, clusterTls } from "../dist/index.js";

async function refused(transport) {
  const g = new Graph(), session = new Session(g, transport);
  const error = await session.run(g.constant(1), [], { wait: false, timeoutMs: 5000 }).catch((e) => e);
  transport.close();
  return error.code;
}

test("plain text is not answered", async () => {
  assert.match(await refused(new GrpcTransport(process.env.SERVER)), /^(UNAVAILABLE|DEADLINE_EXCEEDED)$/);
});

test("a task that is another than was asked for is not believed", async () => {
  const tls = clusterTls(process.env.CLUSTER, "worker/7");
  assert.equal(await refused(new GrpcTransport(process.env.SERVER, tls)), "UNAVAILABLE");
  const right = new GrpcTransport(process.env.SERVER, clusterTls(process.env.CLUSTER, "worker/0"));
  const g = new Graph(), session = new Session(g, right);
  assert.equal((await session.run(g.constant(1))).item(), 1);
  await session.close();
  right.close();
});

test("a cluster that is not there is told", () => {
  assert.throws(() => clusterTls("no-such-cluster", "worker/0"), /cluster no-such-cluster is not up on this machine/);
});
