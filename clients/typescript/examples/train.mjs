// Train a network of one hidden layer: node train.mjs grpc://HOST:PORT, or node train.mjs CLUSTER.
import { Adam, Graph, GrpcTransport, Session, Variable, connectCluster, initializer, ops, placeholder } from "dtfctl-client";

const [target = "demo"] = process.argv.slice(2);
const transport = target.startsWith("grpc:") ? new GrpcTransport(target) : await connectCluster(target);
const g = new Graph();
const random = (...shape) => ops.TruncatedNormal(g, { shape, dtype: "float32", seed: 1, seed2: shape[0] });
const parameter = (name, initial, shape) => new Variable(g, initial, { name, shape });
const x = placeholder(g, "float32", [-1, 2], "x"), labels = placeholder(g, "float32", [-1, 2], "labels");
const w1 = parameter("w1", random(2, 16), [2, 16]), b1 = parameter("b1", new Float32Array(16));
const w2 = parameter("w2", random(16, 2), [16, 2]), b2 = parameter("b2", new Float32Array(2));
const hidden = ops.Relu(g, { features: ops.BiasAdd(g, { value: ops.MatMul(g, { a: x, b: w1.value }), bias: b1.value }) });
const logits = ops.BiasAdd(g, { value: ops.MatMul(g, { a: hidden, b: w2.value }), bias: b2.value });
const likelihood = ops.Mul(g, { x: labels, y: ops.LogSoftmax(g, { logits }) });
const loss = ops.Neg(g, { x: ops.Mean(g, { input: ops.Sum(g, { input: likelihood, reduction_indices: 1 }), reduction_indices: 0 }) });
const adam = new Adam(loss, [w1, b1, w2, b2], { rate: 0.05 });
const session = new Session(g, transport);
await session.run(initializer(g, [w1, b1, w2, b2, ...adam.variables]));
const xor = [[x, [[0, 0], [0, 1], [1, 0], [1, 1]]], [labels, [[1, 0], [0, 1], [0, 1], [1, 0]]]];
for (let step = 0; step <= 200; step++) {
  const [, now] = await session.run([adam.step, loss], xor);
  if (step % 50 === 0) console.log(`step ${step}: loss ${now.item().toFixed(4)}`);
}
console.log("exclusive or:", (await session.run(ops.ArgMax(g, { input: logits, dimension: 1 }), xor)).toArray().join(" "));
await session.close();
transport.close();
