/** Graphs: operations, what they give, and functions. */

import { FunctionDef, NodeDef, type DType } from "./messages.generated.js";
import { tensor, type Tensor, type TensorLike } from "./tensor.js";
import type { Init } from "./wire.js";

/** Where GraphDefs of this client belong among TensorFlow's versions: 1.15's, whose graphs every server takes. */
export const PRODUCER = 134;

/** What an operation gives: something to be fed, fetched, or taken by others. */
export class Output {
  constructor(readonly op: Operation, readonly index: number, readonly dtype: DType) {}

  get graph(): Graph {
    return this.op.graph;
  }

  /** "NAME:INDEX". */
  get name(): string {
    return `${this.op.name}:${this.index}`;
  }
}

/** A node of a graph. */
export class Operation {
  readonly outputs: readonly Output[];

  /**
   * @param ranges for each output of the op's signature: its name and how many tensors it is
   */
  constructor(
    readonly graph: Graph,
    readonly node: Init<NodeDef> & { readonly name: string; readonly op: string },
    readonly inputs: readonly Output[],
    readonly control: readonly Operation[],
    dtypes: readonly DType[],
    readonly ranges: readonly (readonly [string, number])[],
    readonly isStateful: boolean,
  ) {
    this.outputs = dtypes.map((dtype, i) => new Output(this, i, dtype));
  }

  get name(): string {
    return this.node.name;
  }

  get type(): string {
    return this.node.op;
  }
}

/** A graph grows only; a session sends what is new of it before its next step. */
export class Graph {
  readonly operations: Operation[] = [];
  readonly functions: Init<FunctionDef>[] = [];
  private readonly names = new Set<string>();
  private readonly byName = new Map<string, Operation>();
  private device = "";
  private after: readonly Operation[] = [];

  /** Place what `build` adds: "/job:ps/task:0". */
  onDevice<T>(device: string, build: () => T): T {
    const before = this.device;
    this.device = device;
    try {
      return build();
    } finally {
      this.device = before;
    }
  }

  /** Have what `build` adds run after these. */
  afterwards<T>(operations: readonly (Operation | Output)[], build: () => T): T {
    const before = this.after;
    this.after = [...before, ...operations.map(operationOf)];
    try {
      return build();
    } finally {
      this.after = before;
    }
  }

  /** Find an operation by its name. */
  find(name: string): Operation | undefined {
    return this.byName.get(name);
  }

  /** A name that no operation has: `wanted`, or that with a number behind it. */
  uniqueName(wanted: string): string {
    if (!/^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$/.test(wanted)) throw new TypeError(`${JSON.stringify(wanted)} cannot be an operation's name`);
    let name = wanted;
    for (let i = 1; this.names.has(name.toLowerCase()); i++) name = `${wanted}_${i}`;
    this.names.add(name.toLowerCase());
    return name;
  }

  /** Add a node as it is; ops' own functions (`ops.MatMul`) are what calls this. */
  add(
    type: string,
    inputs: readonly Output[],
    attr: Map<string, Init<NodeDef["attr"] extends Map<string, infer A> ? A : never>>,
    dtypes: readonly DType[],
    ranges: readonly (readonly [string, number])[],
    how: { name?: string | undefined; device?: string | undefined; control?: readonly (Operation | Output)[] | undefined; isStateful?: boolean } = {},
  ): Operation {
    for (const input of inputs) {
      if (input.graph !== this) throw new TypeError(`${input.name} belongs to another graph`);
    }
    const control = [...new Set([...this.after, ...(how.control ?? []).map(operationOf)])];
    const node = {
      name: this.uniqueName(how.name ?? type),
      op: type,
      input: [...inputs.map(inputName), ...control.map((op) => `^${op.name}`)],
      device: how.device ?? this.device,
      attr,
    };
    const made = new Operation(this, node, inputs, control, dtypes, ranges, how.isStateful ?? false);
    this.operations.push(made);
    this.byName.set(made.name, made);
    return made;
  }

  /** Add a node that was made elsewhere, under the name it has; what it gives is named by `Output`s of whoever knows. */
  addNode(node: Init<NodeDef> & { readonly name: string; readonly op: string }): Operation {
    if (this.names.has(node.name.toLowerCase())) throw new TypeError(`the graph has ${node.name} already`);
    this.names.add(node.name.toLowerCase());
    const made = new Operation(this, node, [], [], [], [], true);
    this.operations.push(made);
    this.byName.set(made.name, made);
    return made;
  }

  addFunction(definition: Init<FunctionDef>): void {
    this.functions.push(definition);
  }

  /** Add a constant. */
  constant(value: TensorLike, dtype?: DType, how: { shape?: readonly number[]; name?: string } = {}): Output {
    const held: Tensor = tensor(value, dtype, how.shape);
    const attr = new Map([["dtype", { type: held.toProto().dtype! }], ["value", { tensor: held.toProto() }]]);
    return this.add("Const", [], attr, [held.dtype], [["output", 1]], { name: how.name }).outputs[0]!;
  }
}

export function operationOf(of: Operation | Output): Operation {
  return of instanceof Output ? of.op : of;
}

function inputName(input: Output): string {
  return input.index === 0 ? input.op.name : input.name;
}
