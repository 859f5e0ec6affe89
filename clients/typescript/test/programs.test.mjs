// Programs that any of TensorFlow's masters runs with the same results: SERVER says where ("grpc://HOST:PORT"; a
// cluster's name, reached over TLS; or "http://..." of a dashboard, with HEADERS).
import assert from "node:assert/strict";
import { after, test } from "node:test";

import {
  Adam, ConnectTransport, Graph, GrpcTransport, OpError, Session, Tensor, Variable, connectCluster, descend, gradients, initializer,
  ops, placeholder, tensor,
} from "../dist/index.js";

const server = process.env.SERVER;
const command = process.env.DTFCTL ? JSON.parse(process.env.DTFCTL) : ["dtfctl"];
const transport = server.startsWith("grpc:") ? new GrpcTransport(server)
  : server.startsWith("http:") ? new ConnectTransport(server, JSON.parse(process.env.HEADERS))
  : await connectCluster(server, { command });
after(() => transport.close());

/** Run `use` with a session on a graph of its own. */
async function within(use, options = {}) {
  const graph = new Graph(), session = new Session(graph, transport, { timeoutMs: 60_000, ...options });
  try {
    return await use(graph, session);
  } finally {
    await session.close();
  }
}

async function failure(promise) {
  const error = await promise.then(() => assert.fail("it did not fail"), (e) => e);
  assert.ok(error instanceof OpError, `${error.stack}`);
  return error;
}

const VALUES = {
  float32: [0, -0, 1.5, -3.25, Infinity, 2 ** 100], float64: [0.1, -1e300], int32: [-(2 ** 31), 2 ** 31 - 1, 0],
  uint8: [0, 255], int16: [-32768, 32767], int8: [-128, 127], uint16: [0, 65535], uint32: [0, 2 ** 32 - 1],
  int64: [-(2n ** 63n), 2n ** 63n - 1n, 0n], uint64: [2n ** 64n - 1n, 0n], bool: [true, false],
  float16: [0.5, -65504, 2 ** -24, Infinity], bfloat16: [1, -0.5, 2 ** 100], complex64: [[1, -2], [0, 0.5]],
  complex128: [[0.1, 1e300]], string: ["", "naïve \u0000 text", "数"],
};

for (const [dtype, values] of Object.entries(VALUES)) {
  test(`values of ${dtype} come back as they went, fed and as constants`, () => within(async (g, session) => {
    const x = placeholder(g, dtype), y = ops.Identity(g, { input: x }), held = g.constant(values, dtype);
    const [fed, kept] = await session.run([y, held], [[x, values]]);
    for (const found of [fed, kept]) {
      assert.equal(found.dtype, dtype);
      assert.deepEqual(found.shape, [values.length]);
      assert.deepEqual(found.toArray(), values);
    }
  }));
}

test("typed arrays go and come without a detour", () => within(async (g, session) => {
  const x = placeholder(g, "float32"), data = Float32Array.from({ length: 300_000 }, (_, i) => i / 7);
  const found = await session.run(ops.Square(g, { x }), [[x, tensor(data, "float32", [300, 1000])]]);
  assert.ok(found.data instanceof Float32Array);
  assert.deepEqual(found.shape, [300, 1000]);
  assert.ok(found.data.every((value, i) => value === Math.fround(data[i] * data[i])));
  const empty = await session.run(ops.Square(g, { x }), [[x, tensor(new Float32Array(0), "float32", [0, 3])]]);
  assert.deepEqual(empty.shape, [0, 3]);
}));

test("halves are rounded as the server rounds them", () => within(async (g, session) => {
  const numbers = [];
  for (let i = 0; i < 4000; i++) numbers.push(Math.fround(((i * 7919) % 4001 - 2000) * 2 ** ((i % 60) - 30)));
  numbers.push(65519, 65520, 2 ** -25, 3 * 2 ** -26, 1 + 2 ** -11, 1 + 3 * 2 ** -11, NaN, 5.9e-8, 6.1e-5, 2 ** -14 - 2 ** -26);
  const x = placeholder(g, "float32");
  for (const dtype of ["float16", "bfloat16"]) {
    const theirs = await session.run(ops.Cast(g, { x, DstT: dtype }), [[x, numbers]]);
    assert.deepEqual(tensor(numbers, dtype).toFloat32(), theirs.toFloat32());
    const back = await session.run(ops.Cast(g, { x: g.constant(theirs), DstT: "float32" }));
    assert.deepEqual(back.data, theirs.toFloat32());
  }
}));

test("ops check what they are given before anything is sent", () => {
  const g = new Graph(), x = placeholder(g, "float32"), n = placeholder(g, "int32");
  assert.throws(() => ops.MatMul(g, { a: x, b: n }), /MatMul takes float32 as b, and .* is int32/);
  assert.throws(() => ops.MatMul(g, { a: x }), /MatMul needs b/);
  assert.throws(() => ops.MatMul(g, { a: x, b: x, transpose: true }), /takes no transpose; it takes a, b, transpose_a/);
  assert.throws(() => ops.MatMul(g, { a: x, b: x, transpose_a: 1 }), /transpose_a is a bool/);
  assert.throws(() => ops.Add(new Graph(), { x, y: x }), /belongs to another graph/);
  assert.throws(() => tensor([[1, 2], [3]]), /the same length/);
  assert.throws(() => tensor([1.5], "int32"), /1.5 is no int32/);
  assert.throws(() => tensor([2 ** 53], "int64"), /is no int64/);
  assert.throws(() => new Tensor("float32", [3], new Float32Array(2)), /3 elements, not 2/);
});

test("a placeholder is fed what has its shape", () => within(async (g, session) => {
  const rows = placeholder(g, "float32", [-1, 2], "rows"), one = placeholder(g, "float32", [], "one"), any = placeholder(g, "float32", null, "any");
  const twice = (x) => ops.Add(g, { x, y: x });
  const misfit = /rows:0 is of shape \[-1,2\] and is fed a tensor of shape \[2\]/;
  await assert.rejects(session.run(twice(rows), [[rows, [1, 2]]]), misfit);
  await assert.rejects(session.run(twice(rows), { rows: [1, 2] }), misfit);
  await assert.rejects(session.run(twice(rows), [[rows, [[1, 2, 3]]]]), RangeError);
  await assert.rejects(session.run(twice(one), [[one, [1]]]), RangeError);
  assert.deepEqual((await session.run(twice(rows), [[rows, [[1, 2], [3, 4]]]])).toArray(), [[2, 4], [6, 8]]);
  const found = await session.run([twice(one), twice(any), twice(any)], [[one, 1], [any, [[3]]]]);
  assert.deepEqual(found.map((each) => each.toArray()), [2, [[6]], [[6]]]);
}));

test("lists, several outputs, and types from values", () => within(async (g, session) => {
  const joined = ops.ConcatV2(g, { values: [[[1, 2]], [[3, 4]]], axis: 0 });
  const parts = ops.Split(g, { split_dim: 0, value: joined, num_split: 2 });
  const { values, indices } = ops.TopKV2(g, { input: joined, k: 1 });
  const pair = ops.IdentityN(g, { input: [g.constant(["a"]), g.constant(7n)] });
  const found = await session.run([joined, parts[1], values, indices, ...pair]);
  assert.deepEqual(found.map((one) => one.toArray()), [[[1, 2], [3, 4]], [[3, 4]], [[2], [4]], [[1], [1]], ["a"], 7n]);
}));

test("names, devices, control edges, and what was added later", () => within(async (g, session) => {
  const count = new Variable(g, 0n, { name: "count" });
  await session.run(count.initializer);
  const add = ops.AssignAddVariableOp(g, { resource: count.handle, value: 1n, name: "count" });
  assert.equal(add.name, "count_1");
  const after = g.afterwards([add], () => ops.ReadVariableOp(g, { resource: count.handle, dtype: "int64" }));
  assert.equal((await session.run(after)).item(), 1n);
  assert.deepEqual((await session.run(["count_1", after.name, "count/read:0"])).slice(0, 1), [undefined]);
  const device = (await session.devices()).find((one) => one.deviceType === "CPU").name;
  const placed = g.onDevice(device, () => ops.Neg(g, { x: 2 }));
  assert.equal((await session.run(placed)).item(), -2);
}));

test("faults have TensorFlow's codes", () => within(async (g, session) => {
  const x = placeholder(g, "float32", null, "x"), y = ops.MatMul(g, { a: x, b: x, name: "y" });
  const wrong = await failure(session.run(y, [[x, [[1, 2, 3]]]]));
  assert.equal(wrong.code, "INVALID_ARGUMENT");
  assert.equal(wrong.number, 3);
  assert.match(wrong.message, /[Mm]atrix size-incompatible/);
  assert.equal((await failure(session.run(y))).code, "INVALID_ARGUMENT");
  assert.match((await failure(session.run("nothing:0"))).message, /nothing/);
  const unset = new Variable(g, 1, { name: "unset" });
  assert.equal((await failure(session.run(unset.value))).code, "FAILED_PRECONDITION");
  assert.deepEqual((await session.run(y, { "x:0": [[2]] })).toArray(), [[4]]);
}));

test("a session that is closed has gone, here and there", async () => {
  const g = new Graph(), session = new Session(g, transport);
  const y = g.constant(1);
  await session.run(y);
  const handle = session.handle;
  await session.close();
  assert.equal((await failure(session.run(y))).code, "FAILED_PRECONDITION");
  const other = new Session(g, transport);
  await other.run(y);
  const own = other.handle;
  other.handle = handle;
  assert.equal((await failure(other.run(y))).code, "ABORTED");
  other.handle = own;
  await other.close();
});

test("an aborted step is cancelled at the server, a late one too", () => within(async (g, session) => {
  const queue = ops.FIFOQueueV2(g, { component_types: ["int32"], shared_name: `q${process.pid}` });
  const [taken] = ops.QueueDequeueV2(g, { handle: queue, component_types: ["int32"] });
  const put = ops.QueueEnqueueV2(g, { handle: queue, components: [tensor(5, "int32")] });
  const size = ops.QueueSizeV2(g, { handle: queue });
  assert.equal((await session.run(size)).item(), 0);
  const given = new AbortController(), waiting = session.run(taken, [], { signal: given.signal });
  const ended = failure(waiting);
  setTimeout(() => given.abort(new Error("enough")), 300);
  const error = await ended;
  assert.equal(error.code, "CANCELLED");
  assert.equal(error.cause.message, "enough");
  assert.equal((await failure(session.run(taken, [], { timeoutMs: 300 }))).code, "DEADLINE_EXCEEDED");
  assert.equal((await failure(session.run(taken, [], { signal: AbortSignal.abort() }))).code, "CANCELLED");
  // Were one of those steps still waiting, it would take what is put there now.
  for (let i = 0; ; i++) {
    await session.run(put);
    if ((await session.run(size)).item() === 1) break;
    assert.ok(i < 2, "more steps wait than were begun");
  }
  assert.equal((await session.run(taken)).item(), 5);
}));

test("a step in parts", () => within(async (g, session) => {
  const a = placeholder(g, "float32", []), b = placeholder(g, "float32", []);
  const sum = ops.Add(g, { x: a, y: 1 }), product = ops.Mul(g, { x: sum, y: b });
  const parts = await session.partialRun([a, b], [sum, product]);
  const [first] = await parts.run([sum], [[a, 2]]);
  const [second] = await parts.run([product], [[b, first.item() * 10]]);
  assert.deepEqual([first.item(), second.item()], [3, 90]);
}));

test("gradients are those that differences show", () => within(async (g, session) => {
  const x = placeholder(g, "float64", [-1, 3]), w = placeholder(g, "float64", [3, 2]), b = placeholder(g, "float64", [2]);
  const keep = placeholder(g, "float64"), outside = ops.Exp(g, { x: keep });
  const h = ops.Tanh(g, { x: ops.BiasAdd(g, { value: ops.MatMul(g, { a: x, b: w }), bias: b }) });
  const weighted = ops.Mul(g, { x: ops.Sigmoid(g, { x: h }), y: outside });
  const y = ops.Mean(g, { input: ops.Square(g, { x: ops.Sub(g, { x: weighted, y: tensor([0.5, -1], "float64") }) }), reduction_indices: [0, 1] });
  const [dw, db] = gradients(y, [w, b]);
  const at = { x: [[1, 2, -1], [0.5, -0.3, 2]], w: [[0.1, 0.2], [-0.4, 0.3], [0.7, -0.6]], b: [0.05, -0.1], keep: [[0.3, -0.2], [0.1, 0.4]] };
  const fed = (w_, b_) => [[x, at.x], [w, w_], [b, b_], [keep, at.keep]];
  const [gw, gb] = await session.run([dw, db], fed(at.w, at.b));
  const value = async (w_, b_) => (await session.run(y, fed(w_, b_))).item();
  for (let i = 0; i < 3; i++) for (let j = 0; j < 2; j++) {
    const moved = (by) => at.w.map((row, r) => row.map((one, c) => one + (r === i && c === j ? by : 0)));
    const slope = (await value(moved(1e-6), at.b) - await value(moved(-1e-6), at.b)) / 2e-6;
    assert.ok(Math.abs(slope - gw.toArray()[i][j]) < 1e-7, `w ${i} ${j}: ${slope} ${gw.toArray()[i][j]}`);
  }
  const slope = (await value(at.w, [at.b[0] + 1e-6, at.b[1]]) - await value(at.w, [at.b[0] - 1e-6, at.b[1]])) / 2e-6;
  assert.ok(Math.abs(slope - gb.toArray()[0]) < 1e-7);
  assert.throws(() => gradients(y, [placeholder(g, "float64")]), /does not depend on/);
  const random = ops.RandomUniform(g, { shape: ops.Shape(g, { input: w }), dtype: "float64" });
  assert.throws(() => gradients(ops.Mul(g, { x: w, y: random }), [w]), /has state/);
}));

test("training by hand and by Adam", () => within(async (g, session) => {
  const x = placeholder(g, "float32", [-1, 1]), t = placeholder(g, "float32", [-1, 1]);
  const w = new Variable(g, [[0]], { name: "line/w" }), b = new Variable(g, [0], { name: "line/b" });
  const y = ops.BiasAdd(g, { value: ops.MatMul(g, { a: x, b: w.value }), bias: b.value });
  const loss = ops.Mean(g, { input: ops.Square(g, { x: ops.Sub(g, { x: y, y: t }) }), reduction_indices: [0, 1] });
  const step = descend(loss, [w, b], 0.1), adam = new Adam(loss, [w, b], { rate: 0.05 });
  const data = [[x, [[-1], [0], [1], [2]]], [t, [[-5], [-2], [1], [4]]]];
  for (const train of [step, adam.step]) {
    await session.run(initializer(g, [w, b, ...adam.variables]));
    for (let i = 0; i < 300; i++) await session.run(train, data);
    const [slope, offset] = await session.run([w.value, b.value]);
    assert.ok(Math.abs(slope.item() - 3) < 0.02 && Math.abs(offset.item() + 2) < 0.02, `${slope.item()} ${offset.item()}`);
  }
}));

