/**
 * Gradients, made at the server.
 *
 * What leads from `xs` to `y` becomes a function of the graph's library, and TensorFlow's SymbolicGradient op names it:
 * the server has the gradient of each op, so a client needs none.
 */

import { operationOf, type Graph, type Operation, type Output } from "./graph.js";
import { DATA_TYPES, type FunctionDef, type NodeDef } from "./messages.generated.js";
import type { Init } from "./wire.js";

/**
 * Add the gradients of a sum of `y`'s elements, or of those weighted by `dy`.
 *
 * @param xs outputs that `y` depends on
 * @param dy of y's type and shape; ones by default
 * @returns for each x a gradient of its shape
 * @throws TypeError y does not depend on an x, or the way leads through an op with state: what such an op gives cannot
 *   be computed again
 */
export function gradients(y: Output, xs: readonly Output[], dy?: Output): Output[] {
  const graph = y.graph;
  const between = onTheWay(y, xs);
  const order = graph.operations.filter((op) => between.has(op));
  for (const op of order) {
    if (op.isStateful) throw new TypeError(`${op.name} (${op.type}) has state: no gradient goes through it`);
  }
  const { definition, captured } = functionOf(graph, y, xs, order);
  graph.addFunction(definition);
  const taken = [...xs, ...captured];
  const types = taken.map((one) => one.dtype);
  const seed = dy ?? onesLike(y);
  const attr = new Map([
    ["Tin", { list: { type: [...types, y.dtype].map((dtype) => DATA_TYPES[dtype]) } }],
    ["Tout", { list: { type: types.map((dtype) => DATA_TYPES[dtype]) } }],
    ["f", { func: { name: definition.signature!.name! } }],
  ]);
  const made = graph.add("SymbolicGradient", [...taken, seed], attr, types, [["output", types.length]], { name: "gradients" });
  return made.outputs.slice(0, xs.length);
}

/** The operations that depend on an x and that y depends on. */
function onTheWay(y: Output, xs: readonly Output[]): Set<Operation> {
  const starts = new Set(xs), leads = new Map<Operation, boolean>(), reached = new Set<Output>();
  const visit = (of: Output): boolean => {
    if (starts.has(of)) {
      reached.add(of);
      return true;
    }
    return leads.get(of.op) ?? false;
  };
  // Operations come after what they take, so one pass from each op's inputs on is enough.
  const needed = new Set<Operation>([y.op]);
  const all = y.graph.operations.slice(0, y.graph.operations.indexOf(y.op) + 1);
  for (const op of [...all].reverse()) {
    if (!needed.has(op)) continue;
    for (const input of op.inputs) if (!starts.has(input)) needed.add(input.op);
  }
  for (const op of all) {
    if (needed.has(op)) leads.set(op, op.inputs.map(visit).some(Boolean));
  }
  if (starts.has(y)) reached.add(y);
  const lost = xs.find((x) => !reached.has(x));
  if (lost !== undefined) throw new TypeError(`${y.name} does not depend on ${lost.name}`);
  return new Set([...leads].filter(([, does]) => does).map(([op]) => op));
}

function functionOf(graph: Graph, y: Output, xs: readonly Output[], body: readonly Operation[]) {
  const inside = new Set(body), captured: Output[] = [], names = new Map<Output, string>(xs.map((x, i) => [x, `x${i}`]));
  const constants = new Set<Operation>();
  for (const input of body.flatMap((op) => op.inputs)) {
    if (names.has(input) || inside.has(input.op)) continue;
    // Constants go along: what they say of shapes and axes is known there.
    if (input.op.type === "Const") {
      constants.add(input.op);
      continue;
    }
    names.set(input, `c${captured.length}`);
    captured.push(input);
  }
  const nodes = [...constants, ...body];
  const inBody = (of: Output): string => names.get(of) ?? `${bodyName(of.op)}:${rangeOf(of)}`;
  const nodeDef: Init<NodeDef>[] = nodes.map((op) => ({
    name: bodyName(op), op: op.type, input: op.inputs.map(inBody), device: op.node.device ?? "", attr: op.node.attr!,
  }));
  const name = `gradient_of_${y.op.name.replace(/\W/g, "_")}_${graph.functions.length}`;
  const definition: Init<FunctionDef> = {
    signature: {
      name,
      inputArg: [...names].map(([of, arg]) => ({ name: arg, type: DATA_TYPES[of.dtype] })),
      outputArg: [{ name: "y", type: DATA_TYPES[y.dtype] }],
    },
    nodeDef,
    ret: new Map([["y", inBody(y)]]),
  };
  return { definition, captured };
}

/** A node's name in a function has no slashes, dots or capitals that its arguments could be taken for. */
function bodyName(op: Operation): string {
  return `op_${op.name.replace(/\W/g, (sign) => `_${sign.charCodeAt(0)}_`)}`;
}

/** "product:0": the output of the signature, and which tensor of it. */
function rangeOf(of: Output): string {
  let before = 0;
  for (const [name, count] of of.op.ranges) {
    if (of.index < before + count) return `${name}:${of.index - before}`;
    before += count;
  }
  throw new TypeError(`${of.name} is not in its op's signature`);
}

function onesLike(y: Output): Output {
  const attr = new Map([["T", { type: DATA_TYPES[y.dtype] }]]);
  return operationOf(y).graph.add("OnesLike", [y], attr, [y.dtype], [["y", 1]], { name: "ones" }).outputs[0]!;
}
