/**
 * Protocol buffers' binary form, read and written by tables of fields.
 *
 * The tables are made from the .proto files (messages.generated.ts). What is not in them is skipped when it is read.
 */

/** A value's form: a scalar, or what gives a message's table. */
type Kind = Scalar | (() => Message<any>);
type Scalar = "double" | "float" | "int32" | "int64" | "uint32" | "uint64" | "fixed64" | "bool" | "string" | "bytes";
/** "maybe": told apart from a value of zero; `map KIND`: by the form of its keys. */
type How = "one" | "maybe" | "many" | `map ${Scalar}`;
export type Field = readonly [name: string, number: number, how: How, kind: Kind];

/** What a message is made from: any of its fields. */
export type Init<T> = T extends Uint8Array | bigint | string | number | boolean
  ? T
  : T extends Map<infer K, infer V>
    ? Map<K, Init<V>>
    : T extends (infer E)[]
      ? readonly Init<E>[]
      : { readonly [K in keyof T]?: Init<T[K]> };

export interface Message<T> {
  readonly name: string;
  readonly fields: readonly Field[];
  /** Write it. */
  encode(value: Init<T>): Uint8Array;
  /** Read it; throws RangeError where the bytes are not such a message. */
  decode(data: Uint8Array): T;
}

/** Describe a message by its fields. */
export function message<T>(name: string, fields: readonly Field[]): Message<T> {
  let byNumber: Map<number, Field> | undefined;
  return {
    name,
    fields,
    encode(value) {
      const out = new Writer();
      write(out, fields, value as Record<string, unknown>);
      return out.bytes();
    },
    decode(data) {
      byNumber ??= new Map(fields.map((field) => [field[1], field]));
      return read(new Reader(data), fields, byNumber) as T;
    },
  };
}

const VARINT = 0, EIGHT = 1, BYTES = 2, FOUR = 5;
const WIRE: Record<Scalar, number> = {
  double: EIGHT, float: FOUR, int32: VARINT, int64: VARINT, uint32: VARINT, uint64: VARINT,
  fixed64: EIGHT, bool: VARINT, string: BYTES, bytes: BYTES,
};
const utf8 = new TextEncoder();
const text = new TextDecoder("utf-8");

// Writing -------------------------------------------------------------------------------------------------------------

class Writer {
  private data = new Uint8Array(256);
  private view = new DataView(this.data.buffer);
  private length = 0;

  bytes(): Uint8Array {
    return this.data.subarray(0, this.length);
  }

  private room(more: number): number {
    const at = this.length;
    this.length += more;
    if (this.length > this.data.length) {
      const larger = new Uint8Array(Math.max(this.length, 2 * this.data.length));
      larger.set(this.data);
      this.data = larger;
      this.view = new DataView(larger.buffer);
    }
    return at;
  }

  small(value: number): void {
    while (value > 127) {
      const at = this.room(1);
      this.data[at] = (value % 128) | 128;
      value = Math.floor(value / 128);
    }
    const at = this.room(1);
    this.data[at] = value;
  }

  large(value: bigint): void {
    let left = BigInt.asUintN(64, value);
    while (left > 127n) {
      const at = this.room(1);
      this.data[at] = Number(left & 127n) | 128;
      left >>= 7n;
    }
    const at = this.room(1);
    this.data[at] = Number(left);
  }

  raw(data: Uint8Array): void {
    this.small(data.length);
    const at = this.room(data.length);
    this.data.set(data, at);
  }

  scalar(kind: Scalar, value: unknown): void {
    switch (kind) {
      case "double": { const at = this.room(8); this.view.setFloat64(at, value as number, true); break; }
      case "float": { const at = this.room(4); this.view.setFloat32(at, value as number, true); break; }
      case "fixed64": { const at = this.room(8); this.view.setBigUint64(at, value as bigint, true); break; }
      case "int32": (value as number) < 0 ? this.large(BigInt(value as number)) : this.small(value as number); break;
      case "uint32": this.small(value as number); break;
      case "int64": case "uint64": this.large(value as bigint); break;
      case "bool": this.small(value ? 1 : 0); break;
      case "string": this.raw(utf8.encode(value as string)); break;
      case "bytes": this.raw(value as Uint8Array); break;
    }
  }
}

function write(out: Writer, fields: readonly Field[], value: Record<string, unknown>): void {
  for (const [name, number, how, kind] of fields) {
    const found = value[name];
    if (found === undefined) continue;
    if (how === "many") {
      const items = found as readonly unknown[];
      if (typeof kind === "string" && WIRE[kind] !== BYTES) {
        if (items.length === 0) continue;
        const inner = new Writer();
        for (const item of items) inner.scalar(kind, item);
        out.small(number * 8 + BYTES);
        out.raw(inner.bytes());
      } else {
        for (const item of items) one(out, number, kind, item);
      }
    } else if (how.startsWith("map ")) {
      for (const [key, item] of found as Map<unknown, unknown>) {
        const inner = new Writer();
        one(inner, 1, how.slice(4) as Scalar, key);
        one(inner, 2, kind, item);
        out.small(number * 8 + BYTES);
        out.raw(inner.bytes());
      }
    } else if (how === "maybe" || !isZero(found)) {
      one(out, number, kind, found);
    }
  }
}

function one(out: Writer, number: number, kind: Kind, value: unknown): void {
  if (typeof kind === "string") {
    out.small(number * 8 + WIRE[kind]);
    out.scalar(kind, value);
    return;
  }
  const inner = new Writer();
  write(inner, kind().fields, value as Record<string, unknown>);
  out.small(number * 8 + BYTES);
  out.raw(inner.bytes());
}

function isZero(value: unknown): boolean {
  return value === 0 ? Object.is(value, 0) : value === 0n || value === false || value === "" || (value instanceof Uint8Array && value.length === 0);
}

// Reading -------------------------------------------------------------------------------------------------------------

class Reader {
  at = 0;
  private readonly view: DataView;

  private readonly data: Uint8Array;

  constructor(data: Uint8Array) {
    // Node's Buffer is one whose `slice` copies nothing.
    this.data = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    this.view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  }

  get ended(): boolean {
    return this.at >= this.data.length;
  }

  private take(count: number): number {
    const at = this.at;
    if (count > this.data.length - at) throw new RangeError("a message ends in the middle of a field");
    this.at = at + count;
    return at;
  }

  large(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.data[this.take(1)]!;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asUintN(64, value);
    }
    throw new RangeError("a message holds a number of more than ten bytes");
  }

  small(): number {
    let value = 0;
    for (let scale = 1, i = 0; i < 7; i++, scale *= 128) {
      const byte = this.data[this.at + i];
      if (byte === undefined) break;
      value += (byte & 127) * scale;
      if (byte < 128) {
        this.at += i + 1;
        return value;
      }
    }
    return Number(BigInt.asIntN(64, this.large()));
  }

  raw(): Uint8Array {
    const length = this.small();
    if (length < 0) throw new RangeError("a message has a field of negative length");
    const at = this.take(length);
    return this.data.subarray(at, at + length);
  }

  scalar(kind: Scalar): unknown {
    switch (kind) {
      case "double": return this.view.getFloat64(this.take(8), true);
      case "float": return this.view.getFloat32(this.take(4), true);
      case "fixed64": return this.view.getBigUint64(this.take(8), true);
      case "int32": return this.small() | 0;
      case "uint32": return this.small() >>> 0;
      case "int64": return BigInt.asIntN(64, this.large());
      case "uint64": return this.large();
      case "bool": return this.large() !== 0n;
      case "string": return text.decode(this.raw());
      case "bytes": return this.raw().slice();
    }
  }

  skip(wire: number): void {
    switch (wire) {
      case VARINT: this.large(); break;
      case EIGHT: this.take(8); break;
      case BYTES: this.raw(); break;
      case FOUR: this.take(4); break;
      default: throw new RangeError(`a message has a field of wire type ${wire}`);
    }
  }
}

const ZERO: Record<Scalar, () => unknown> = {
  double: () => 0, float: () => 0, int32: () => 0, uint32: () => 0, int64: () => 0n, uint64: () => 0n,
  fixed64: () => 0n, bool: () => false, string: () => "", bytes: () => new Uint8Array(0),
};

function read(from: Reader, fields: readonly Field[], byNumber: Map<number, Field>): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const [name, , how, kind] of fields) {
    if (how === "many") found[name] = [];
    else if (how.startsWith("map ")) found[name] = new Map();
    else if (how === "one") found[name] = ZERO[kind as Scalar]();
  }
  while (!from.ended) {
    const tag = from.small(), wire = tag % 8, field = byNumber.get(Math.floor(tag / 8));
    if (field === undefined) {
      from.skip(wire);
      continue;
    }
    const [name, , how, kind] = field;
    const packed = how === "many" && wire === BYTES && typeof kind === "string" && WIRE[kind] !== BYTES;
    if (packed) {
      const inner = new Reader(from.raw()), items = found[name] as unknown[];
      while (!inner.ended) items.push(inner.scalar(kind as Scalar));
      continue;
    }
    if (wire !== (typeof kind === "string" && !how.startsWith("map ") ? WIRE[kind] : BYTES)) {
      from.skip(wire);
      continue;
    }
    if (how.startsWith("map ")) {
      const [key, value] = entry(from.raw(), how.slice(4) as Scalar, kind);
      (found[name] as Map<unknown, unknown>).set(key, value);
      continue;
    }
    const value = typeof kind === "string" ? from.scalar(kind) : kind().decode(from.raw());
    if (how === "many") (found[name] as unknown[]).push(value);
    else found[name] = value;
  }
  return found;
}

function entry(data: Uint8Array, keyKind: Scalar, kind: Kind): [unknown, unknown] {
  const table = message<{ key: unknown; value: unknown }>("an entry of a map", [
    ["key", 1, "one", keyKind],
    ["value", 2, typeof kind === "string" ? "one" : "maybe", kind],
  ]);
  const { key, value } = table.decode(data);
  return [key, value ?? (kind as () => Message<unknown>)().decode(new Uint8Array(0))];
}
