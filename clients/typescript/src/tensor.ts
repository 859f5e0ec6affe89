/** Values: an element type, a shape and a typed array, row by row. */

import { DATA_TYPES, TensorProto, type DType } from "./messages.generated.js";
import type { Init } from "./wire.js";

export type { DType };
export type Numbers =
  | Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | Uint8Array | Uint16Array | Uint32Array
  | BigInt64Array | BigUint64Array;
type Scalar = number | bigint | boolean | string | Uint8Array;
type Nested = Scalar | readonly Nested[];
/** What can stand for a tensor: one, a typed array, a scalar, or nested arrays of scalars. */
export type TensorLike = Tensor | Numbers | Nested;

type Maker = { new (length: number): Numbers; readonly BYTES_PER_ELEMENT: number };
/** By element type: the array that holds it, and how many of its elements are one of the tensor's. */
const STORED: Partial<Record<DType, readonly [Maker, number]>> = {
  float32: [Float32Array, 1], float64: [Float64Array, 1], int32: [Int32Array, 1], uint8: [Uint8Array, 1],
  int16: [Int16Array, 1], int8: [Int8Array, 1], complex64: [Float32Array, 2], int64: [BigInt64Array, 1],
  bool: [Uint8Array, 1], qint8: [Int8Array, 1], quint8: [Uint8Array, 1], qint32: [Int32Array, 1],
  bfloat16: [Uint16Array, 1], qint16: [Int16Array, 1], quint16: [Uint16Array, 1], uint16: [Uint16Array, 1],
  complex128: [Float64Array, 2], float16: [Uint16Array, 1], uint32: [Uint32Array, 1], uint64: [BigUint64Array, 1],
  float8_e5m2: [Uint8Array, 1], float8_e4m3fn: [Uint8Array, 1],
};
const NAMES = new Map<number, DType>(Object.entries(DATA_TYPES).map(([name, number]) => [number, name as DType]));
const MOST_ELEMENTS = 2 ** 31;

export class Tensor {
  /**
   * @param dtype of its elements
   * @param shape its sizes; [] of a scalar
   * @param data row by row. float16 and bfloat16 are their bits in a Uint16Array (see `toFloat32`), bool is 0 or 1 in
   *   a Uint8Array, complex numbers are pairs, strings are byte strings (see `strings`)
   * @throws TypeError data is no array for that type; RangeError it has not as many elements as the shape says
   */
  constructor(readonly dtype: DType, readonly shape: readonly number[], readonly data: Numbers | readonly Uint8Array[]) {
    const stored = dtype === "string" ? 1 : storedAs(dtype)[1];
    if (dtype === "string" ? !Array.isArray(data) : !(data instanceof storedAs(dtype)[0])) {
      throw new TypeError(`a tensor of ${dtype} is held by ${dtype === "string" ? "an array of Uint8Array" : storedAs(dtype)[0].name}`);
    }
    if (data.length !== sizeOf(shape) * stored) {
      throw new RangeError(`a tensor of ${dtype} and shape [${shape}] has ${sizeOf(shape) * stored} elements, not ${data.length}`);
    }
  }

  /** How many elements it has. */
  get size(): number {
    return sizeOf(this.shape);
  }

  /** The elements as float32, of float16 and bfloat16 too. */
  toFloat32(): Float32Array {
    if (this.dtype === "float16") return Float32Array.from(this.data as Uint16Array, fromHalf);
    if (this.dtype === "bfloat16") return fromBrain(this.data as Uint16Array);
    return Float32Array.from(this.data as Float32Array, Number);
  }

  /** The elements of a tensor of strings, read as UTF-8. */
  strings(): string[] {
    if (this.dtype !== "string") throw new TypeError(`a tensor of ${this.dtype} has no strings`);
    const text = new TextDecoder();
    return (this.data as readonly Uint8Array[]).map((bytes) => text.decode(bytes));
  }

  /** The elements as numbers, bigints, booleans, strings or pairs, nested as the shape says. */
  toArray(): any {
    const flat = this.flat();
    const nest = (from: number, axis: number, count: number): any => {
      if (axis === this.shape.length) return flat[from];
      const inner = count / this.shape[axis]!;
      return Array.from({ length: this.shape[axis]! }, (_, i) => nest(from + i * inner, axis + 1, inner));
    };
    return nest(0, 0, this.size);
  }

  /** The one element of it. */
  item(): any {
    if (this.size !== 1) throw new RangeError(`a tensor of shape [${this.shape}] has not one element`);
    return this.flat()[0];
  }

  private flat(): any[] {
    switch (this.dtype) {
      case "string": return this.strings();
      case "bool": return Array.from(this.data as Uint8Array, (bit) => bit !== 0);
      case "float16": case "bfloat16": return Array.from(this.toFloat32());
      case "complex64": case "complex128": {
        const parts = this.data as Float64Array;
        return Array.from({ length: this.size }, (_, i) => [parts[2 * i], parts[2 * i + 1]]);
      }
      default: return Array.from(this.data as Float32Array);
    }
  }

  /** Write it as the message that crosses the wire. */
  toProto(): Init<TensorProto> {
    const tensorShape = { dim: this.shape.map((size) => ({ size: BigInt(size) })) };
    const dtype = DATA_TYPES[this.dtype];
    if (this.dtype === "string") return { dtype, tensorShape, stringVal: this.data as readonly Uint8Array[] };
    const { buffer, byteOffset, byteLength } = this.data as Numbers;
    return { dtype, tensorShape, tensorContent: new Uint8Array(buffer, byteOffset, byteLength) };
  }

  /** Read it from the message. */
  static fromProto(proto: TensorProto): Tensor {
    const dtype = dtypeOf(proto.dtype);
    const shape = (proto.tensorShape?.dim ?? []).map((dim) => Number(dim.size));
    const count = sizeOf(shape);
    if (count > MOST_ELEMENTS) throw new RangeError(`a tensor of shape [${shape}] is too large`);
    if (dtype === "string") {
      const listed = proto.tensorContent.length > 0 ? stringList(proto.tensorContent, count) : proto.stringVal;
      return new Tensor(dtype, shape, spread(listed, count, () => new Uint8Array(0)));
    }
    const [Made, each] = storedAs(dtype);
    if (proto.tensorContent.length > 0) {
      if (proto.tensorContent.length !== count * each * Made.BYTES_PER_ELEMENT) {
        throw new RangeError(`a tensor of ${dtype} and shape [${shape}] came with ${proto.tensorContent.length} bytes`);
      }
      // The bytes were copied from the message: they begin where such an array may.
      const Over = Made as unknown as { new (buffer: ArrayBufferLike, at: number, length: number): Numbers };
      return new Tensor(dtype, shape, new Over(proto.tensorContent.buffer, proto.tensorContent.byteOffset, count * each));
    }
    const data = new Made(count * each) as Float64Array;
    const values = listed(proto, dtype) as number[];
    for (let i = 0; i < data.length && values.length > 0; i++) data[i] = values[i] ?? values[values.length - each + (i % each)]!;
    return new Tensor(dtype, shape, data);
  }
}

/** How many elements a shape has. */
export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Name the element type that a number stands for. */
export function dtypeOf(number: number): DType {
  const found = NAMES.get(number > 100 ? number - 100 : number);
  if (found === undefined) throw new TypeError(`there is no element type ${number}`);
  return found;
}

function storedAs(dtype: DType): readonly [Maker, number] {
  const found = STORED[dtype];
  if (found === undefined) throw new TypeError(`a tensor of ${dtype} has no values that a client could hold`);
  return found;
}

/** The last value stands for all that are left out. */
function spread<T>(values: readonly T[], count: number, zero: () => T): T[] {
  const last = values[values.length - 1];
  return Array.from({ length: count }, (_, i) => values[i] ?? last ?? zero());
}

/** TensorFlow's own servers write strings as content: all lengths, as varints, and then all bytes. */
function stringList(content: Uint8Array, count: number): Uint8Array[] {
  const lengths: number[] = [];
  let at = 0;
  const next = (): number => content[at++] ?? fail();
  const fail = (): never => { throw new RangeError(`a tensor of ${count} strings came with ${content.length} bytes`); };
  for (let i = 0; i < count; i++) {
    let length = 0, scale = 1, byte = next();
    for (; byte > 127; byte = next(), scale *= 128) length += (byte & 127) * scale;
    lengths.push(length + byte * scale);
  }
  const found = lengths.map((length) => content.slice(at, (at += length)));
  return at === content.length ? found : fail();
}

function listed(proto: TensorProto, dtype: DType): readonly (number | bigint)[] {
  switch (dtype) {
    case "float32": return proto.floatVal;
    case "float64": return proto.doubleVal;
    case "complex64": return proto.scomplexVal;
    case "complex128": return proto.dcomplexVal;
    case "int64": return proto.int64Val;
    case "uint64": return proto.uint64Val;
    case "uint32": return proto.uint32Val;
    case "bool": return proto.boolVal.map(Number);
    case "float16": case "bfloat16": return proto.halfVal;
    case "float8_e5m2": case "float8_e4m3fn": return Array.from(proto.float8Val);
    default: return proto.intVal;
  }
}

// Making them ---------------------------------------------------------------------------------------------------------

/**
 * Make a tensor.
 *
 * @param dtype by default the typed array's own; float32 of numbers, int64 of bigints, bool, string
 * @param shape by default that of the nested arrays, and one dimension of a typed array
 * @throws TypeError values do not fit the type; RangeError they do not fit the shape, or rows differ in length
 */
export function tensor(value: TensorLike, dtype?: DType, shape?: readonly number[]): Tensor {
  if (value instanceof Tensor) {
    if (dtype !== undefined && dtype !== value.dtype) throw new TypeError(`a tensor of ${value.dtype} is no tensor of ${dtype}`);
    return shape === undefined ? value : new Tensor(value.dtype, shape, value.data);
  }
  if (ArrayBuffer.isView(value) && !(value instanceof Uint8Array && dtype === "string")) {
    const own = naturalOf(value as Numbers), kind = dtype ?? own;
    const data = value instanceof storedAs(kind)[0] ? (value as Numbers) : converted(Array.from(value as Float32Array), kind);
    return new Tensor(kind, shape ?? [data.length / storedAs(kind)[1]], data);
  }
  const found: number[] = [], flat: Scalar[] = [];
  flatten(value as Nested, 0, found, flat);
  const kind = dtype ?? kindOf(flat[0]);
  const pairs = kind === "complex64" || kind === "complex128";
  const inferred = pairs && Array.isArray(value) ? found.slice(0, -1) : found;
  if (kind === "string") return new Tensor(kind, shape ?? found, flat.map(bytesOf));
  return new Tensor(kind, shape ?? inferred, converted(flat, kind));
}

function flatten(value: Nested, axis: number, shape: number[], out: Scalar[]): void {
  if (!Array.isArray(value)) {
    if (axis < shape.length) throw new RangeError("the rows of a tensor have the same length");
    out.push(value as Scalar);
    return;
  }
  if (shape[axis] === undefined && out.length === 0) shape[axis] = value.length;
  if (shape[axis] !== value.length) throw new RangeError("the rows of a tensor have the same length");
  for (const item of value) flatten(item, axis + 1, shape, out);
}

function naturalOf(data: Numbers): DType {
  if (data instanceof Float64Array) return "float64";
  if (data instanceof Int32Array) return "int32";
  if (data instanceof Uint8Array) return "uint8";
  if (data instanceof Int8Array) return "int8";
  if (data instanceof Int16Array) return "int16";
  if (data instanceof Uint16Array) return "uint16";
  if (data instanceof Uint32Array) return "uint32";
  if (data instanceof BigInt64Array) return "int64";
  if (data instanceof BigUint64Array) return "uint64";
  return "float32";
}

function kindOf(value: Scalar | undefined): DType {
  if (typeof value === "bigint") return "int64";
  if (typeof value === "boolean") return "bool";
  if (typeof value === "string" || value instanceof Uint8Array) return "string";
  return "float32";
}

function bytesOf(value: Scalar): Uint8Array {
  if (value instanceof Uint8Array) return value;
  if (typeof value !== "string") throw new TypeError(`${String(value)} is no string`);
  return new TextEncoder().encode(value);
}

function converted(values: readonly Scalar[], dtype: DType): Numbers {
  const out = new (storedAs(dtype)[0])(values.length) as Float64Array;
  const fit = fitter(dtype, out as Numbers);
  values.forEach((value, i) => { out[i] = fit(value) as number; });
  return out;
}

function fitter(dtype: DType, out: Numbers): (value: Scalar) => number | bigint {
  const refuse = (value: Scalar): never => { throw new TypeError(`${String(value)} is no ${dtype}`); };
  if (dtype === "bool") return (value) => (typeof value === "boolean" ? Number(value) : refuse(value));
  if (out instanceof BigInt64Array || out instanceof BigUint64Array) {
    return (value) => {
      if (typeof value !== "bigint" && !Number.isSafeInteger(value)) refuse(value);
      const whole = BigInt(value as number), kept = out instanceof BigInt64Array ? BigInt.asIntN(64, whole) : BigInt.asUintN(64, whole);
      return kept === whole ? whole : refuse(value);
    };
  }
  const number = (value: Scalar): number => (typeof value === "number" ? value : typeof value === "bigint" ? Number(value) : refuse(value));
  if (dtype === "float16") return (value) => toHalf(number(value));
  if (dtype === "bfloat16") return (value) => toBrain(number(value));
  if (out instanceof Float32Array || out instanceof Float64Array) return number;
  const probe = new (out.constructor as Maker)(1);
  return (value) => {
    const whole = number(value);
    probe[0] = whole;
    return probe[0] === whole ? whole : refuse(value);
  };
}

// Halves --------------------------------------------------------------------------------------------------------------

const bits = new Uint32Array(1), asFloat = new Float32Array(bits.buffer);

/** The bits of the bfloat16 that is nearest; of two, the even one. */
export function toBrain(value: number): number {
  asFloat[0] = value;
  const word = bits[0]!;
  if (Number.isNaN(value)) return (word >>> 16) | 0x40;
  return ((word + 0x7fff + ((word >>> 16) & 1)) >>> 16) & 0xffff;
}

function fromBrain(words: Uint16Array): Float32Array {
  return new Float32Array(Uint32Array.from(words, (word) => word << 16).buffer);
}

/** The bits of the float16 that is nearest; of two, the even one. */
export function toHalf(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0, size = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  // Below 2^-14 steps are 2^-24; above, a 1024th of the power of two below.
  const exponent = Math.max(-14, Math.floor(Math.log2(size || 1e-30)));
  const step = 2 ** (exponent - 10), steps = toEven(size / step);
  return sign | (steps + ((exponent + 14) << 10));
}

function toEven(value: number): number {
  const low = Math.floor(value), rest = value - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 === 1) ? low + 1 : low;
}

function fromHalf(word: number): number {
  const sign = word & 0x8000 ? -1 : 1, exponent = (word >>> 10) & 31, fraction = word & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
