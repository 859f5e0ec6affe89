/** What the functions of ops.generated.ts do: check what is given against a signature and add the node. */

import { Graph, Operation, Output } from "./graph.js";
import { DATA_TYPES, type AttrValue, type DType } from "./messages.generated.js";
import { Tensor, tensor, type TensorLike } from "./tensor.js";
import type { Init } from "./wire.js";

/** An output of the graph, or a value that becomes a constant. */
export type Input = Output | TensorLike;
/** Sizes; -1 is unknown, and null a shape of which nothing is known. */
export type Shape = readonly number[] | null;
/** A function of the graph's library, by its name. */
export type Func = string | { readonly name: string; readonly attr?: Map<string, Init<AttrValue>> };
/** What every op takes. */
export interface Common {
  readonly name?: string;
  readonly device?: string;
  /** It runs after these. */
  readonly control?: readonly (Operation | Output)[];
}
/** More outputs than one: each by its name. */
export type Named<T> = T & { readonly op: Operation };

interface Arg { readonly name: string; readonly count: string; readonly kind: string; readonly isList: boolean }
interface Attr {
  readonly name: string;
  readonly kind: string;
  readonly fallback: string | undefined;
  /** Of plain values. */
  readonly preferred: string | undefined;
  readonly isOptional: boolean;
}

/** Make an op's function from its signature; the notation is written by tools/gen_typescript.py. */
export function define<Args extends unknown[], Result>(
  type: string, inputs: string, outputs: string, attrs: string, flag?: "stateful",
): (graph: Graph, ...args: Args) => Result {
  let signature: Signature | undefined;
  return (graph, ...args) => {
    signature ??= new Signature(type, inputs, outputs, attrs, flag === "stateful");
    return signature.apply(graph, (args[0] ?? {}) as Record<string, unknown>) as Result;
  };
}

const words = (text: string): string[] => text.split(" ").filter(Boolean);

class Signature {
  private readonly inputs: readonly Arg[];
  private readonly outputs: readonly Arg[];
  private readonly attrs: readonly Attr[];

  constructor(private readonly type: string, inputs: string, outputs: string, attrs: string, private readonly isStateful: boolean) {
    this.inputs = words(inputs).map(argOf);
    this.outputs = words(outputs).map(argOf);
    this.attrs = words(attrs).map((word) => {
      const [, name, kind, mark, said] = /^(\w+):([a-z()]+)([?=~])?(.*)$/.exec(word)!;
      const isOptional = mark === "?" || mark === "=", preferred = said || undefined;
      return { name: name!, kind: kind!, fallback: mark === "=" ? said : undefined, preferred, isOptional };
    });
  }

  apply(graph: Graph, args: Record<string, unknown>): unknown {
    const known = new Map<string, unknown>();
    for (const attr of this.attrs) if (args[attr.name] !== undefined) known.set(attr.name, args[attr.name]);
    this.refuseUnknown(args);
    const taken = this.inputs.flatMap((arg) => this.take(graph, arg, args, known));
    for (const attr of this.attrs) {
      if (known.has(attr.name)) continue;
      if (attr.fallback !== undefined) known.set(attr.name, attr.kind === "int" ? Number(attr.fallback) : attr.fallback);
      else if (!attr.isOptional) throw new TypeError(`${this.type} needs ${attr.name} (${attr.kind})`);
    }
    const written = new Map<string, Init<AttrValue>>();
    for (const attr of this.attrs) {
      if (known.has(attr.name)) written.set(attr.name, attrValue(`${this.type}'s ${attr.name}`, attr.kind, known.get(attr.name)));
    }
    const ranges: [string, number][] = [], dtypes: DType[] = [];
    for (const arg of this.outputs) {
      const found = this.dtypesOf(arg, known);
      ranges.push([arg.name, found.length]);
      dtypes.push(...found);
    }
    const { name, device, control } = args as Common;
    const made = graph.add(this.type, taken, written, dtypes, ranges, { name, device, control, isStateful: this.isStateful });
    return this.results(made);
  }

  private refuseUnknown(args: Record<string, unknown>): void {
    for (const name of Object.keys(args)) {
      const fits = ["name", "device", "control"].includes(name) || [...this.inputs, ...this.attrs].some((one) => one.name === name);
      if (!fits) throw new TypeError(`${this.type} takes no ${name}; it takes ${[...this.inputs, ...this.attrs].map((one) => one.name).join(", ")}`);
    }
  }

  /** Turn an argument into outputs, and note the attributes that follow from it. */
  private take(graph: Graph, arg: Arg, args: Record<string, unknown>, known: Map<string, unknown>): Output[] {
    const given = args[arg.name];
    if (given === undefined) throw new TypeError(`${this.type} needs ${arg.name}`);
    if (!arg.isList) return [this.one(graph, arg, given as Input, arg.kind, known)];
    if (!Array.isArray(given)) throw new TypeError(`${this.type} takes an array of tensors as ${arg.name}`);
    if (arg.count === "@") {
      const wanted = known.get(arg.kind) as readonly DType[] | undefined;
      const made = given.map((one, i) => this.one(graph, arg, one, wanted?.[i] === undefined ? "" : `=${wanted[i]}`, known));
      known.set(arg.kind, made.map((one) => one.dtype));
      return made;
    }
    // What is a tensor already says of which type those are that are not.
    const first = (given as Input[]).find((one): one is Output | Tensor => one instanceof Output || one instanceof Tensor);
    if (first !== undefined && !arg.kind.startsWith("=") && !known.has(arg.kind)) known.set(arg.kind, first.dtype);
    const made = given.map((one) => this.one(graph, arg, one, arg.kind, known));
    known.set(arg.count, made.length);
    return made;
  }

  private one(graph: Graph, arg: Arg, given: Input, kind: string, known: Map<string, unknown>): Output {
    const wanted = kind.startsWith("=") ? (kind.slice(1) as DType) : (known.get(kind) as DType | undefined);
    let made: Output;
    if (given instanceof Output) {
      made = given;
      if (wanted !== undefined && wanted !== made.dtype) {
        throw new TypeError(`${this.type} takes ${wanted} as ${arg.name}, and ${made.name} is ${made.dtype}`);
      }
    } else {
      made = graph.constant(given, given instanceof Tensor ? undefined : (wanted ?? this.preferred(kind, given)));
      if (wanted !== undefined && wanted !== made.dtype) throw new TypeError(`${this.type} takes ${wanted} as ${arg.name}, not ${made.dtype}`);
    }
    if (kind !== "" && !kind.startsWith("=")) known.set(kind, made.dtype);
    return made;
  }

  /** The type of a plain value of which nothing else says it: that of the signature. */
  private preferred(kind: string, given: Input): DType | undefined {
    if (ArrayBuffer.isView(given)) return undefined;
    return this.attrs.find((attr) => attr.name === kind)?.preferred as DType | undefined;
  }

  private dtypesOf(arg: Arg, known: Map<string, unknown>): readonly DType[] {
    if (arg.count === "@") return known.get(arg.kind) as readonly DType[];
    const dtype = arg.kind.startsWith("=") ? (arg.kind.slice(1) as DType) : (known.get(arg.kind) as DType);
    return Array.from({ length: arg.count === "" ? 1 : Number(known.get(arg.count)) }, () => dtype);
  }

  private results(made: Operation): unknown {
    let at = 0;
    const found = this.outputs.map((arg, i) => {
      const part = made.outputs.slice(at, (at += made.ranges[i]![1]));
      return [arg.name, arg.isList ? part : part[0]] as const;
    });
    if (found.length === 0) return made;
    if (found.length === 1) return found[0]![1];
    return { ...Object.fromEntries(found), op: made };
  }
}

function argOf(word: string): Arg {
  const [, name, kind] = /^(\w+):&?(.+)$/.exec(word)!;
  if (kind!.startsWith("@")) return { name: name!, count: "@", kind: kind!.slice(1), isList: true };
  const [count, each] = kind!.includes("*") ? (kind!.split("*") as [string, string]) : ["", kind!];
  return { name: name!, count, kind: each, isList: count !== "" };
}

// Attributes ----------------------------------------------------------------------------------------------------------

function attrValue(what: string, kind: string, value: unknown): Init<AttrValue> {
  const list = /^list\((\w+)\)$/.exec(kind);
  if (list === null) return scalarAttr(what, kind, value);
  if (!Array.isArray(value)) throw new TypeError(`${what} is a ${kind}, not ${String(value)}`);
  const parts = value.map((one) => scalarAttr(what, list[1]!, one) as Record<string, unknown>);
  const field = { int: "i", float: "f", bool: "b", string: "s", type: "type", shape: "shape", tensor: "tensor", func: "func" }[list[1]!]!;
  return { list: { [field]: parts.map((part) => part[field]) } };
}

function scalarAttr(what: string, kind: string, value: unknown): Init<AttrValue> {
  const refuse = (): never => { throw new TypeError(`${what} is a ${kind}, not ${String(value)}`); };
  switch (kind) {
    case "int": return typeof value === "bigint" || Number.isSafeInteger(value) ? { i: BigInt(value as number) } : refuse();
    case "float": return typeof value === "number" ? { f: value } : refuse();
    case "bool": return typeof value === "boolean" ? { b: value } : refuse();
    case "string":
      if (value instanceof Uint8Array) return { s: value };
      return typeof value === "string" ? { s: new TextEncoder().encode(value) } : refuse();
    case "type": return { type: DATA_TYPES[value as DType] ?? refuse() };
    case "shape":
      if (value === null) return { shape: { unknownRank: true } };
      return Array.isArray(value) ? { shape: { dim: value.map((size) => ({ size: BigInt(size) })) } } : refuse();
    case "tensor": return { tensor: tensor(value as TensorLike).toProto() };
    case "func": return { func: typeof value === "string" ? { name: value } : (value as { name: string }) };
    default: return refuse();
  }
}
