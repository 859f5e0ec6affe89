/** Variables, and steps that make a loss smaller. */

import { gradients } from "./gradients.js";
import { Graph, Output, type Operation } from "./graph.js";
import {
  AssignVariableOp, Mul, NoOp, Placeholder, ReadVariableOp, ResourceApplyAdam, ResourceApplyGradientDescent, VarHandleOp, ZerosLike,
} from "./ops.generated.js";
import { tensor, type DType, type TensorLike } from "./tensor.js";
import type { Shape } from "./define.js";

/** A value that stays at the servers between steps, also between sessions. */
export class Variable {
  readonly handle: Output;
  readonly dtype: DType;
  readonly shape: Shape;
  /** Sets it to its first value; run it before the first step. */
  readonly initializer: Operation;
  /** Its value as a step finds it. */
  readonly value: Output;

  /**
   * @param initial its first value; an output needs `shape`
   * @param how name: other sessions find it by that. device: "/job:ps/task:0"
   */
  constructor(readonly graph: Graph, initial: TensorLike | Output, how: { name?: string; device?: string; dtype?: DType; shape?: Shape } = {}) {
    const first = initial instanceof Output ? initial : graph.constant(initial, how.dtype, { name: `${how.name ?? "Variable"}/initial` });
    this.shape = how.shape ?? (initial instanceof Output ? null : tensor(initial, how.dtype).shape);
    const name = graph.uniqueName(how.name ?? "Variable");
    this.dtype = first.dtype;
    const device = how.device === undefined ? {} : { device: how.device };
    this.handle = VarHandleOp(graph, { shared_name: name, dtype: this.dtype, shape: this.shape, name: `${name}/handle`, ...device });
    this.initializer = AssignVariableOp(graph, { resource: this.handle, value: first, name: `${name}/init` });
    this.value = ReadVariableOp(graph, { resource: this.handle, dtype: this.dtype, name: `${name}/read` });
  }
}

/** Feed something here at each step; -1 in the shape is any size. */
export function placeholder(graph: Graph, dtype: DType, shape: Shape = null, name?: string): Output {
  return Placeholder(graph, { dtype, shape, ...(name === undefined ? {} : { name }) });
}

/** One operation that runs all. */
export function group(graph: Graph, operations: readonly Operation[], name = "group"): Operation {
  return NoOp(graph, { control: operations, name });
}

/** One operation that sets all variables to their first values. */
export function initializer(graph: Graph, variables: readonly Variable[]): Operation {
  return group(graph, variables.map((one) => one.initializer), "init");
}

/** A step of gradient descent. */
export function descend(loss: Output, variables: readonly Variable[], rate: number): Operation {
  const { graph } = loss;
  const found = gradients(loss, variables.map((one) => one.value));
  return group(graph, variables.map((one, i) =>
    ResourceApplyGradientDescent(graph, { var: one.handle, alpha: rate, delta: found[i]! })), "descend");
}

export class Adam {
  /** What it keeps; initialize these with the model's own. */
  readonly variables: Variable[] = [];
  readonly step: Operation;

  /** A step of Adam (Kingma and Ba), with TensorFlow's defaults. */
  constructor(loss: Output, variables: readonly Variable[], how: { rate?: number; beta1?: number; beta2?: number; epsilon?: number } = {}) {
    const { rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8 } = how;
    const { graph } = loss;
    const found = gradients(loss, variables.map((one) => one.value));
    const kept = (initial: TensorLike | Output, name: string, device?: string, shape?: Shape): Variable => {
      const made = new Variable(graph, initial, { name, ...(device ? { device } : {}), ...(shape !== undefined ? { shape } : {}) });
      this.variables.push(made);
      return made;
    };
    const powers = [kept(beta1, "adam/beta1_power"), kept(beta2, "adam/beta2_power")] as const;
    const updates = variables.map((one, i) => {
      const { name, device } = { name: one.handle.op.name.replace(/\/handle$/, ""), device: one.handle.op.node.device };
      const zeros = ZerosLike(graph, { x: one.initializer.inputs[1]! });
      const m = kept(zeros, `${name}/adam_m`, device, one.shape), v = kept(zeros, `${name}/adam_v`, device, one.shape);
      return ResourceApplyAdam(graph, {
        var: one.handle, m: m.handle, v: v.handle, beta1_power: powers[0].value, beta2_power: powers[1].value,
        lr: rate, beta1, beta2, epsilon, grad: found[i]!,
      });
    });
    const grown = graph.afterwards(updates, () => [[powers[0], beta1], [powers[1], beta2]] as const)
      .map(([power, beta]) => AssignVariableOp(graph, {
        resource: power.handle, value: Mul(graph, { x: power.value, y: beta }), control: updates,
      }));
    this.step = group(graph, [...updates, ...grown], "adam");
  }
}
