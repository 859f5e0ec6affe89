// Made of clients/typescript by `npm run bundle` there; do not edit.

// src/errors.ts
var CODES = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED"
];
var OpError = class _OpError extends Error {
  /**
   * @param code what kind of fault it is: "INVALID_ARGUMENT", "UNAVAILABLE" ...
   * @param message what was wrong, in the server's words
   */
  constructor(code, message2, options) {
    super(message2, options);
    this.code = code;
  }
  code;
  name = "OpError";
  /** The code as a number. */
  get number() {
    return CODES.indexOf(this.code);
  }
  static of(number, message2, cause) {
    return new _OpError(CODES[number] ?? "UNKNOWN", message2, { cause });
  }
};
function aborted(signal) {
  return new OpError("CANCELLED", "The call was aborted here", { cause: signal.reason });
}

// src/transport.ts
var SERVICE = "tensorflow.MasterService";

// src/connect.ts
var ConnectTransport = class {
  /**
   * @param base the address before "/tensorflow.MasterService/...": "/rpc/train-1/worker/0" on a page of dtfctl's dashboard,
   *   for the state of the job train-1
   * @param headers sent with each call
   */
  constructor(base, headers = {}) {
    this.base = base;
    this.headers = headers;
  }
  base;
  headers;
  closing = new AbortController();
  async call(method, request, options = {}) {
    const { signal, timeoutMs } = options;
    if (signal?.aborted) throw aborted(signal);
    const late = new AbortController();
    const timer = timeoutMs === void 0 ? void 0 : setTimeout(() => late.abort(), timeoutMs);
    const signals = [this.closing.signal, late.signal, ...signal === void 0 ? [] : [signal]];
    try {
      const answer = await fetch(`${this.base}/${SERVICE}/${method}`, {
        method: "POST",
        headers: {
          ...this.headers,
          "Content-Type": "application/proto",
          "Connect-Protocol-Version": "1",
          ...timeoutMs === void 0 ? {} : { "Connect-Timeout-Ms": String(Math.ceil(timeoutMs)) }
        },
        body: request,
        signal: AbortSignal.any(signals)
      });
      if (!answer.ok) throw await fault(answer);
      return new Uint8Array(await answer.arrayBuffer());
    } catch (error) {
      if (error instanceof OpError) throw error;
      if (signal?.aborted) throw aborted(signal);
      if (late.signal.aborted) throw new OpError("DEADLINE_EXCEEDED", `${method} took longer than ${timeoutMs} ms`);
      throw new OpError("UNAVAILABLE", `${this.base} cannot be reached: ${String(error)}`, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }
  close() {
    this.closing.abort();
  }
};
var MEANT = {
  400: "INTERNAL",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "UNIMPLEMENTED",
  429: "UNAVAILABLE",
  502: "UNAVAILABLE",
  503: "UNAVAILABLE",
  504: "UNAVAILABLE"
};
async function fault(answer) {
  const found = await answer.json().catch(() => ({}));
  const word = String(found.code ?? "").toUpperCase();
  const said = CODES.find((one2) => one2 === word || one2 === "CANCELLED" && word === "CANCELED");
  const text2 = found.message ?? found.error ?? `HTTP ${answer.status} ${answer.statusText}`;
  return new OpError(said ?? MEANT[answer.status] ?? "UNKNOWN", String(text2));
}

// src/wire.ts
function message(name, fields) {
  let byNumber;
  return {
    name,
    fields,
    encode(value) {
      const out = new Writer();
      write(out, fields, value);
      return out.bytes();
    },
    decode(data) {
      byNumber ??= new Map(fields.map((field) => [field[1], field]));
      return read(new Reader(data), fields, byNumber);
    }
  };
}
var VARINT = 0;
var EIGHT = 1;
var BYTES = 2;
var FOUR = 5;
var WIRE = {
  double: EIGHT,
  float: FOUR,
  int32: VARINT,
  int64: VARINT,
  uint32: VARINT,
  uint64: VARINT,
  fixed64: EIGHT,
  bool: VARINT,
  string: BYTES,
  bytes: BYTES
};
var utf8 = new TextEncoder();
var text = new TextDecoder("utf-8");
var Writer = class {
  data = new Uint8Array(256);
  view = new DataView(this.data.buffer);
  length = 0;
  bytes() {
    return this.data.subarray(0, this.length);
  }
  room(more) {
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
  small(value) {
    while (value > 127) {
      const at2 = this.room(1);
      this.data[at2] = value % 128 | 128;
      value = Math.floor(value / 128);
    }
    const at = this.room(1);
    this.data[at] = value;
  }
  large(value) {
    let left = BigInt.asUintN(64, value);
    while (left > 127n) {
      const at2 = this.room(1);
      this.data[at2] = Number(left & 127n) | 128;
      left >>= 7n;
    }
    const at = this.room(1);
    this.data[at] = Number(left);
  }
  raw(data) {
    this.small(data.length);
    const at = this.room(data.length);
    this.data.set(data, at);
  }
  scalar(kind, value) {
    switch (kind) {
      case "double": {
        const at = this.room(8);
        this.view.setFloat64(at, value, true);
        break;
      }
      case "float": {
        const at = this.room(4);
        this.view.setFloat32(at, value, true);
        break;
      }
      case "fixed64": {
        const at = this.room(8);
        this.view.setBigUint64(at, value, true);
        break;
      }
      case "int32":
        value < 0 ? this.large(BigInt(value)) : this.small(value);
        break;
      case "uint32":
        this.small(value);
        break;
      case "int64":
      case "uint64":
        this.large(value);
        break;
      case "bool":
        this.small(value ? 1 : 0);
        break;
      case "string":
        this.raw(utf8.encode(value));
        break;
      case "bytes":
        this.raw(value);
        break;
    }
  }
};
function write(out, fields, value) {
  for (const [name, number, how, kind] of fields) {
    const found = value[name];
    if (found === void 0) continue;
    if (how === "many") {
      const items = found;
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
      for (const [key, item] of found) {
        const inner = new Writer();
        one(inner, 1, how.slice(4), key);
        one(inner, 2, kind, item);
        out.small(number * 8 + BYTES);
        out.raw(inner.bytes());
      }
    } else if (how === "maybe" || !isZero(found)) {
      one(out, number, kind, found);
    }
  }
}
function one(out, number, kind, value) {
  if (typeof kind === "string") {
    out.small(number * 8 + WIRE[kind]);
    out.scalar(kind, value);
    return;
  }
  const inner = new Writer();
  write(inner, kind().fields, value);
  out.small(number * 8 + BYTES);
  out.raw(inner.bytes());
}
function isZero(value) {
  return value === 0 ? Object.is(value, 0) : value === 0n || value === false || value === "" || value instanceof Uint8Array && value.length === 0;
}
var Reader = class {
  at = 0;
  view;
  data;
  constructor(data) {
    this.data = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    this.view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  }
  get ended() {
    return this.at >= this.data.length;
  }
  take(count) {
    const at = this.at;
    if (count > this.data.length - at) throw new RangeError("a message ends in the middle of a field");
    this.at = at + count;
    return at;
  }
  large() {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.data[this.take(1)];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asUintN(64, value);
    }
    throw new RangeError("a message holds a number of more than ten bytes");
  }
  small() {
    let value = 0;
    for (let scale = 1, i = 0; i < 7; i++, scale *= 128) {
      const byte = this.data[this.at + i];
      if (byte === void 0) break;
      value += (byte & 127) * scale;
      if (byte < 128) {
        this.at += i + 1;
        return value;
      }
    }
    return Number(BigInt.asIntN(64, this.large()));
  }
  raw() {
    const length = this.small();
    if (length < 0) throw new RangeError("a message has a field of negative length");
    const at = this.take(length);
    return this.data.subarray(at, at + length);
  }
  scalar(kind) {
    switch (kind) {
      case "double":
        return this.view.getFloat64(this.take(8), true);
      case "float":
        return this.view.getFloat32(this.take(4), true);
      case "fixed64":
        return this.view.getBigUint64(this.take(8), true);
      case "int32":
        return this.small() | 0;
      case "uint32":
        return this.small() >>> 0;
      case "int64":
        return BigInt.asIntN(64, this.large());
      case "uint64":
        return this.large();
      case "bool":
        return this.large() !== 0n;
      case "string":
        return text.decode(this.raw());
      case "bytes":
        return this.raw().slice();
    }
  }
  skip(wire) {
    switch (wire) {
      case VARINT:
        this.large();
        break;
      case EIGHT:
        this.take(8);
        break;
      case BYTES:
        this.raw();
        break;
      case FOUR:
        this.take(4);
        break;
      default:
        throw new RangeError(`a message has a field of wire type ${wire}`);
    }
  }
};
var ZERO = {
  double: () => 0,
  float: () => 0,
  int32: () => 0,
  uint32: () => 0,
  int64: () => 0n,
  uint64: () => 0n,
  fixed64: () => 0n,
  bool: () => false,
  string: () => "",
  bytes: () => new Uint8Array(0)
};
function read(from, fields, byNumber) {
  const found = {};
  for (const [name, , how, kind] of fields) {
    if (how === "many") found[name] = [];
    else if (how.startsWith("map ")) found[name] = /* @__PURE__ */ new Map();
    else if (how === "one") found[name] = ZERO[kind]();
  }
  while (!from.ended) {
    const tag = from.small(), wire = tag % 8, field = byNumber.get(Math.floor(tag / 8));
    if (field === void 0) {
      from.skip(wire);
      continue;
    }
    const [name, , how, kind] = field;
    const packed = how === "many" && wire === BYTES && typeof kind === "string" && WIRE[kind] !== BYTES;
    if (packed) {
      const inner = new Reader(from.raw()), items = found[name];
      while (!inner.ended) items.push(inner.scalar(kind));
      continue;
    }
    if (wire !== (typeof kind === "string" && !how.startsWith("map ") ? WIRE[kind] : BYTES)) {
      from.skip(wire);
      continue;
    }
    if (how.startsWith("map ")) {
      const [key, value2] = entry(from.raw(), how.slice(4), kind);
      found[name].set(key, value2);
      continue;
    }
    const value = typeof kind === "string" ? from.scalar(kind) : kind().decode(from.raw());
    if (how === "many") found[name].push(value);
    else found[name] = value;
  }
  return found;
}
function entry(data, keyKind, kind) {
  const table = message("an entry of a map", [
    ["key", 1, "one", keyKind],
    ["value", 2, typeof kind === "string" ? "one" : "maybe", kind]
  ]);
  const { key, value } = table.decode(data);
  return [key, value ?? kind().decode(new Uint8Array(0))];
}

// src/messages.generated.ts
var DATA_TYPES = {
  float32: 1,
  float64: 2,
  int32: 3,
  uint8: 4,
  int16: 5,
  int8: 6,
  string: 7,
  complex64: 8,
  int64: 9,
  bool: 10,
  qint8: 11,
  quint8: 12,
  qint32: 13,
  bfloat16: 14,
  qint16: 15,
  quint16: 16,
  uint16: 17,
  complex128: 18,
  float16: 19,
  resource: 20,
  variant: 21,
  uint32: 22,
  uint64: 23,
  float8_e5m2: 24,
  float8_e4m3fn: 25,
  float8_e4m3fnuz: 26,
  float8_e4m3b11fnuz: 27,
  float8_e5m2fnuz: 28,
  int4: 29,
  uint4: 30,
  int2: 31,
  uint2: 32,
  float4_e2m1fn: 33
};
var AttrValue = /* @__PURE__ */ message("AttrValue", [
  ["list", 1, "maybe", () => AttrValue_ListValue],
  ["s", 2, "maybe", "bytes"],
  ["i", 3, "maybe", "int64"],
  ["f", 4, "maybe", "float"],
  ["b", 5, "maybe", "bool"],
  ["type", 6, "maybe", "int32"],
  ["shape", 7, "maybe", () => TensorShapeProto],
  ["tensor", 8, "maybe", () => TensorProto],
  ["placeholder", 9, "maybe", "string"],
  ["func", 10, "maybe", () => NameAttrList]
]);
var AttrValue_ListValue = /* @__PURE__ */ message("AttrValue_ListValue", [
  ["s", 2, "many", "bytes"],
  ["i", 3, "many", "int64"],
  ["f", 4, "many", "float"],
  ["b", 5, "many", "bool"],
  ["type", 6, "many", "int32"],
  ["shape", 7, "many", () => TensorShapeProto],
  ["tensor", 8, "many", () => TensorProto],
  ["func", 9, "many", () => NameAttrList]
]);
var CloseSessionRequest = /* @__PURE__ */ message("CloseSessionRequest", [
  ["sessionHandle", 1, "one", "string"]
]);
var CloseSessionResponse = /* @__PURE__ */ message("CloseSessionResponse", []);
var ConfigProto = /* @__PURE__ */ message("ConfigProto", [
  ["deviceCount", 1, "map string", "int32"],
  ["intraOpParallelismThreads", 2, "one", "int32"],
  ["placementPeriod", 3, "one", "int32"],
  ["deviceFilters", 4, "many", "string"],
  ["interOpParallelismThreads", 5, "one", "int32"],
  ["allowSoftPlacement", 7, "one", "bool"],
  ["logDevicePlacement", 8, "one", "bool"],
  ["usePerSessionThreads", 9, "one", "bool"],
  ["operationTimeoutInMs", 11, "one", "int64"],
  ["isolateSessionState", 15, "one", "bool"],
  ["shareClusterDevicesInSession", 17, "one", "bool"]
]);
var CreateSessionRequest = /* @__PURE__ */ message("CreateSessionRequest", [
  ["graphDef", 1, "maybe", () => GraphDef],
  ["config", 2, "maybe", () => ConfigProto],
  ["target", 3, "one", "string"]
]);
var CreateSessionResponse = /* @__PURE__ */ message("CreateSessionResponse", [
  ["sessionHandle", 1, "one", "string"],
  ["graphVersion", 2, "one", "int64"]
]);
var DeviceAttributes = /* @__PURE__ */ message("DeviceAttributes", [
  ["name", 1, "one", "string"],
  ["deviceType", 2, "one", "string"],
  ["memoryLimit", 4, "one", "int64"],
  ["incarnation", 6, "one", "fixed64"],
  ["physicalDeviceDesc", 7, "one", "string"],
  ["xlaGlobalId", 8, "one", "int64"]
]);
var ExtendSessionRequest = /* @__PURE__ */ message("ExtendSessionRequest", [
  ["sessionHandle", 1, "one", "string"],
  ["graphDef", 2, "maybe", () => GraphDef],
  ["currentGraphVersion", 3, "one", "int64"]
]);
var ExtendSessionResponse = /* @__PURE__ */ message("ExtendSessionResponse", [
  ["newGraphVersion", 4, "one", "int64"]
]);
var FunctionDef = /* @__PURE__ */ message("FunctionDef", [
  ["signature", 1, "maybe", () => OpDef],
  ["nodeDef", 3, "many", () => NodeDef],
  ["ret", 4, "map string", "string"],
  ["attr", 5, "map string", () => AttrValue],
  ["controlRet", 6, "map string", "string"],
  ["argAttr", 7, "map uint32", () => FunctionDef_ArgAttrs],
  ["resourceArgUniqueId", 8, "map uint32", "uint32"]
]);
var FunctionDef_ArgAttrs = /* @__PURE__ */ message("FunctionDef_ArgAttrs", [
  ["attr", 1, "map string", () => AttrValue]
]);
var FunctionDefLibrary = /* @__PURE__ */ message("FunctionDefLibrary", [
  ["function", 1, "many", () => FunctionDef],
  ["gradient", 2, "many", () => GradientDef],
  ["registeredGradients", 3, "many", () => RegisteredGradient]
]);
var GradientDef = /* @__PURE__ */ message("GradientDef", [
  ["functionName", 1, "one", "string"],
  ["gradientFunc", 2, "one", "string"]
]);
var GraphDef = /* @__PURE__ */ message("GraphDef", [
  ["node", 1, "many", () => NodeDef],
  ["library", 2, "maybe", () => FunctionDefLibrary],
  ["version", 3, "one", "int32"],
  ["versions", 4, "maybe", () => VersionDef]
]);
var ListDevicesRequest = /* @__PURE__ */ message("ListDevicesRequest", [
  ["sessionHandle", 1, "one", "string"]
]);
var ListDevicesResponse = /* @__PURE__ */ message("ListDevicesResponse", [
  ["localDevice", 1, "many", () => DeviceAttributes],
  ["remoteDevice", 2, "many", () => DeviceAttributes]
]);
var NameAttrList = /* @__PURE__ */ message("NameAttrList", [
  ["name", 1, "one", "string"],
  ["attr", 2, "map string", () => AttrValue]
]);
var NamedTensorProto = /* @__PURE__ */ message("NamedTensorProto", [
  ["name", 1, "one", "string"],
  ["tensor", 2, "maybe", () => TensorProto]
]);
var NodeDef = /* @__PURE__ */ message("NodeDef", [
  ["name", 1, "one", "string"],
  ["op", 2, "one", "string"],
  ["input", 3, "many", "string"],
  ["device", 4, "one", "string"],
  ["attr", 5, "map string", () => AttrValue]
]);
var OpDef = /* @__PURE__ */ message("OpDef", [
  ["name", 1, "one", "string"],
  ["inputArg", 2, "many", () => OpDef_ArgDef],
  ["outputArg", 3, "many", () => OpDef_ArgDef],
  ["attr", 4, "many", () => OpDef_AttrDef],
  ["summary", 5, "one", "string"],
  ["description", 6, "one", "string"],
  ["deprecation", 8, "maybe", () => OpDeprecation],
  ["isAggregate", 16, "one", "bool"],
  ["isStateful", 17, "one", "bool"],
  ["isCommutative", 18, "one", "bool"],
  ["allowsUninitializedInput", 19, "one", "bool"],
  ["controlOutput", 20, "many", "string"],
  ["isDistributedCommunication", 21, "one", "bool"]
]);
var OpDef_ArgDef = /* @__PURE__ */ message("OpDef_ArgDef", [
  ["name", 1, "one", "string"],
  ["description", 2, "one", "string"],
  ["type", 3, "one", "int32"],
  ["typeAttr", 4, "one", "string"],
  ["numberAttr", 5, "one", "string"],
  ["typeListAttr", 6, "one", "string"],
  ["isRef", 16, "one", "bool"]
]);
var OpDef_AttrDef = /* @__PURE__ */ message("OpDef_AttrDef", [
  ["name", 1, "one", "string"],
  ["type", 2, "one", "string"],
  ["defaultValue", 3, "maybe", () => AttrValue],
  ["description", 4, "one", "string"],
  ["hasMinimum", 5, "one", "bool"],
  ["minimum", 6, "one", "int64"],
  ["allowedValues", 7, "maybe", () => AttrValue]
]);
var OpDeprecation = /* @__PURE__ */ message("OpDeprecation", [
  ["version", 1, "one", "int32"],
  ["explanation", 2, "one", "string"]
]);
var PartialRunSetupRequest = /* @__PURE__ */ message("PartialRunSetupRequest", [
  ["sessionHandle", 1, "one", "string"],
  ["feed", 2, "many", "string"],
  ["fetch", 3, "many", "string"],
  ["target", 4, "many", "string"],
  ["requestId", 5, "one", "int64"]
]);
var PartialRunSetupResponse = /* @__PURE__ */ message("PartialRunSetupResponse", [
  ["partialRunHandle", 1, "one", "string"]
]);
var RegisteredGradient = /* @__PURE__ */ message("RegisteredGradient", [
  ["gradientFunc", 1, "one", "string"],
  ["registeredOpType", 2, "one", "string"]
]);
var RunOptions = /* @__PURE__ */ message("RunOptions", [
  ["traceLevel", 1, "one", "int32"],
  ["timeoutInMs", 2, "one", "int64"],
  ["interOpThreadPool", 3, "one", "int32"],
  ["outputPartitionGraphs", 5, "one", "bool"],
  ["reportTensorAllocationsUponOom", 7, "one", "bool"]
]);
var RunStepRequest = /* @__PURE__ */ message("RunStepRequest", [
  ["sessionHandle", 1, "one", "string"],
  ["feed", 2, "many", () => NamedTensorProto],
  ["fetch", 3, "many", "string"],
  ["target", 4, "many", "string"],
  ["options", 5, "maybe", () => RunOptions],
  ["partialRunHandle", 6, "one", "string"],
  ["storeErrorsInResponseBody", 7, "one", "bool"],
  ["requestId", 8, "one", "int64"]
]);
var RunStepResponse = /* @__PURE__ */ message("RunStepResponse", [
  ["tensor", 1, "many", () => NamedTensorProto],
  ["statusCode", 3, "one", "int32"],
  ["statusErrorMessage", 4, "one", "string"]
]);
var TensorProto = /* @__PURE__ */ message("TensorProto", [
  ["dtype", 1, "one", "int32"],
  ["tensorShape", 2, "maybe", () => TensorShapeProto],
  ["versionNumber", 3, "one", "int32"],
  ["tensorContent", 4, "one", "bytes"],
  ["floatVal", 5, "many", "float"],
  ["doubleVal", 6, "many", "double"],
  ["intVal", 7, "many", "int32"],
  ["stringVal", 8, "many", "bytes"],
  ["scomplexVal", 9, "many", "float"],
  ["int64Val", 10, "many", "int64"],
  ["boolVal", 11, "many", "bool"],
  ["dcomplexVal", 12, "many", "double"],
  ["halfVal", 13, "many", "int32"],
  ["uint32Val", 16, "many", "uint32"],
  ["uint64Val", 17, "many", "uint64"],
  ["float8Val", 18, "one", "bytes"]
]);
var TensorShapeProto = /* @__PURE__ */ message("TensorShapeProto", [
  ["dim", 2, "many", () => TensorShapeProto_Dim],
  ["unknownRank", 3, "one", "bool"]
]);
var TensorShapeProto_Dim = /* @__PURE__ */ message("TensorShapeProto_Dim", [
  ["size", 1, "one", "int64"],
  ["name", 2, "one", "string"]
]);
var VersionDef = /* @__PURE__ */ message("VersionDef", [
  ["producer", 1, "one", "int32"],
  ["minConsumer", 2, "one", "int32"],
  ["badConsumers", 3, "many", "int32"]
]);

// src/tensor.ts
var STORED = {
  float32: [Float32Array, 1],
  float64: [Float64Array, 1],
  int32: [Int32Array, 1],
  uint8: [Uint8Array, 1],
  int16: [Int16Array, 1],
  int8: [Int8Array, 1],
  complex64: [Float32Array, 2],
  int64: [BigInt64Array, 1],
  bool: [Uint8Array, 1],
  qint8: [Int8Array, 1],
  quint8: [Uint8Array, 1],
  qint32: [Int32Array, 1],
  bfloat16: [Uint16Array, 1],
  qint16: [Int16Array, 1],
  quint16: [Uint16Array, 1],
  uint16: [Uint16Array, 1],
  complex128: [Float64Array, 2],
  float16: [Uint16Array, 1],
  uint32: [Uint32Array, 1],
  uint64: [BigUint64Array, 1],
  float8_e5m2: [Uint8Array, 1],
  float8_e4m3fn: [Uint8Array, 1]
};
var NAMES = new Map(Object.entries(DATA_TYPES).map(([name, number]) => [number, name]));
var MOST_ELEMENTS = 2 ** 31;
var Tensor = class _Tensor {
  /**
   * @param dtype of its elements
   * @param shape its sizes; [] of a scalar
   * @param data row by row. float16 and bfloat16 are their bits in a Uint16Array (see `toFloat32`), bool is 0 or 1 in
   *   a Uint8Array, complex numbers are pairs, strings are byte strings (see `strings`)
   * @throws TypeError data is no array for that type; RangeError it has not as many elements as the shape says
   */
  constructor(dtype, shape, data) {
    this.dtype = dtype;
    this.shape = shape;
    this.data = data;
    const stored = dtype === "string" ? 1 : storedAs(dtype)[1];
    if (dtype === "string" ? !Array.isArray(data) : !(data instanceof storedAs(dtype)[0])) {
      throw new TypeError(`a tensor of ${dtype} is held by ${dtype === "string" ? "an array of Uint8Array" : storedAs(dtype)[0].name}`);
    }
    if (data.length !== sizeOf(shape) * stored) {
      throw new RangeError(`a tensor of ${dtype} and shape [${shape}] has ${sizeOf(shape) * stored} elements, not ${data.length}`);
    }
  }
  dtype;
  shape;
  data;
  /** How many elements it has. */
  get size() {
    return sizeOf(this.shape);
  }
  /** The elements as float32, of float16 and bfloat16 too. */
  toFloat32() {
    if (this.dtype === "float16") return Float32Array.from(this.data, fromHalf);
    if (this.dtype === "bfloat16") return fromBrain(this.data);
    return Float32Array.from(this.data, Number);
  }
  /** The elements of a tensor of strings, read as UTF-8. */
  strings() {
    if (this.dtype !== "string") throw new TypeError(`a tensor of ${this.dtype} has no strings`);
    const text2 = new TextDecoder();
    return this.data.map((bytes) => text2.decode(bytes));
  }
  /** The elements as numbers, bigints, booleans, strings or pairs, nested as the shape says. */
  toArray() {
    const flat = this.flat();
    const nest = (from, axis, count) => {
      if (axis === this.shape.length) return flat[from];
      const inner = count / this.shape[axis];
      return Array.from({ length: this.shape[axis] }, (_, i) => nest(from + i * inner, axis + 1, inner));
    };
    return nest(0, 0, this.size);
  }
  /** The one element of it. */
  item() {
    if (this.size !== 1) throw new RangeError(`a tensor of shape [${this.shape}] has not one element`);
    return this.flat()[0];
  }
  flat() {
    switch (this.dtype) {
      case "string":
        return this.strings();
      case "bool":
        return Array.from(this.data, (bit) => bit !== 0);
      case "float16":
      case "bfloat16":
        return Array.from(this.toFloat32());
      case "complex64":
      case "complex128": {
        const parts = this.data;
        return Array.from({ length: this.size }, (_, i) => [parts[2 * i], parts[2 * i + 1]]);
      }
      default:
        return Array.from(this.data);
    }
  }
  /** Write it as the message that crosses the wire. */
  toProto() {
    const tensorShape = { dim: this.shape.map((size) => ({ size: BigInt(size) })) };
    const dtype = DATA_TYPES[this.dtype];
    if (this.dtype === "string") return { dtype, tensorShape, stringVal: this.data };
    const { buffer, byteOffset, byteLength } = this.data;
    return { dtype, tensorShape, tensorContent: new Uint8Array(buffer, byteOffset, byteLength) };
  }
  /** Read it from the message. */
  static fromProto(proto) {
    const dtype = dtypeOf(proto.dtype);
    const shape = (proto.tensorShape?.dim ?? []).map((dim) => Number(dim.size));
    const count = sizeOf(shape);
    if (count > MOST_ELEMENTS) throw new RangeError(`a tensor of shape [${shape}] is too large`);
    if (dtype === "string") {
      const listed2 = proto.tensorContent.length > 0 ? stringList(proto.tensorContent, count) : proto.stringVal;
      return new _Tensor(dtype, shape, spread(listed2, count, () => new Uint8Array(0)));
    }
    const [Made, each] = storedAs(dtype);
    if (proto.tensorContent.length > 0) {
      if (proto.tensorContent.length !== count * each * Made.BYTES_PER_ELEMENT) {
        throw new RangeError(`a tensor of ${dtype} and shape [${shape}] came with ${proto.tensorContent.length} bytes`);
      }
      const Over = Made;
      return new _Tensor(dtype, shape, new Over(proto.tensorContent.buffer, proto.tensorContent.byteOffset, count * each));
    }
    const data = new Made(count * each);
    const values = listed(proto, dtype);
    for (let i = 0; i < data.length && values.length > 0; i++) data[i] = values[i] ?? values[values.length - each + i % each];
    return new _Tensor(dtype, shape, data);
  }
};
function sizeOf(shape) {
  return shape.reduce((product, size) => product * size, 1);
}
function dtypeOf(number) {
  const found = NAMES.get(number > 100 ? number - 100 : number);
  if (found === void 0) throw new TypeError(`there is no element type ${number}`);
  return found;
}
function storedAs(dtype) {
  const found = STORED[dtype];
  if (found === void 0) throw new TypeError(`a tensor of ${dtype} has no values that a client could hold`);
  return found;
}
function spread(values, count, zero) {
  const last = values[values.length - 1];
  return Array.from({ length: count }, (_, i) => values[i] ?? last ?? zero());
}
function stringList(content, count) {
  const lengths = [];
  let at = 0;
  const next = () => content[at++] ?? fail();
  const fail = () => {
    throw new RangeError(`a tensor of ${count} strings came with ${content.length} bytes`);
  };
  for (let i = 0; i < count; i++) {
    let length = 0, scale = 1, byte = next();
    for (; byte > 127; byte = next(), scale *= 128) length += (byte & 127) * scale;
    lengths.push(length + byte * scale);
  }
  const found = lengths.map((length) => content.slice(at, at += length));
  return at === content.length ? found : fail();
}
function listed(proto, dtype) {
  switch (dtype) {
    case "float32":
      return proto.floatVal;
    case "float64":
      return proto.doubleVal;
    case "complex64":
      return proto.scomplexVal;
    case "complex128":
      return proto.dcomplexVal;
    case "int64":
      return proto.int64Val;
    case "uint64":
      return proto.uint64Val;
    case "uint32":
      return proto.uint32Val;
    case "bool":
      return proto.boolVal.map(Number);
    case "float16":
    case "bfloat16":
      return proto.halfVal;
    case "float8_e5m2":
    case "float8_e4m3fn":
      return Array.from(proto.float8Val);
    default:
      return proto.intVal;
  }
}
function tensor(value, dtype, shape) {
  if (value instanceof Tensor) {
    if (dtype !== void 0 && dtype !== value.dtype) throw new TypeError(`a tensor of ${value.dtype} is no tensor of ${dtype}`);
    return shape === void 0 ? value : new Tensor(value.dtype, shape, value.data);
  }
  if (ArrayBuffer.isView(value) && !(value instanceof Uint8Array && dtype === "string")) {
    const own = naturalOf(value), kind2 = dtype ?? own;
    const data = value instanceof storedAs(kind2)[0] ? value : converted(Array.from(value), kind2);
    return new Tensor(kind2, shape ?? [data.length / storedAs(kind2)[1]], data);
  }
  const found = [], flat = [];
  flatten(value, 0, found, flat);
  const kind = dtype ?? kindOf(flat[0]);
  const pairs = kind === "complex64" || kind === "complex128";
  const inferred = pairs && Array.isArray(value) ? found.slice(0, -1) : found;
  if (kind === "string") return new Tensor(kind, shape ?? found, flat.map(bytesOf));
  return new Tensor(kind, shape ?? inferred, converted(flat, kind));
}
function flatten(value, axis, shape, out) {
  if (!Array.isArray(value)) {
    if (axis < shape.length) throw new RangeError("the rows of a tensor have the same length");
    out.push(value);
    return;
  }
  if (shape[axis] === void 0 && out.length === 0) shape[axis] = value.length;
  if (shape[axis] !== value.length) throw new RangeError("the rows of a tensor have the same length");
  for (const item of value) flatten(item, axis + 1, shape, out);
}
function naturalOf(data) {
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
function kindOf(value) {
  if (typeof value === "bigint") return "int64";
  if (typeof value === "boolean") return "bool";
  if (typeof value === "string" || value instanceof Uint8Array) return "string";
  return "float32";
}
function bytesOf(value) {
  if (value instanceof Uint8Array) return value;
  if (typeof value !== "string") throw new TypeError(`${String(value)} is no string`);
  return new TextEncoder().encode(value);
}
function converted(values, dtype) {
  const out = new (storedAs(dtype))[0](values.length);
  const fit = fitter(dtype, out);
  values.forEach((value, i) => {
    out[i] = fit(value);
  });
  return out;
}
function fitter(dtype, out) {
  const refuse = (value) => {
    throw new TypeError(`${String(value)} is no ${dtype}`);
  };
  if (dtype === "bool") return (value) => typeof value === "boolean" ? Number(value) : refuse(value);
  if (out instanceof BigInt64Array || out instanceof BigUint64Array) {
    return (value) => {
      if (typeof value !== "bigint" && !Number.isSafeInteger(value)) refuse(value);
      const whole = BigInt(value), kept = out instanceof BigInt64Array ? BigInt.asIntN(64, whole) : BigInt.asUintN(64, whole);
      return kept === whole ? whole : refuse(value);
    };
  }
  const number = (value) => typeof value === "number" ? value : typeof value === "bigint" ? Number(value) : refuse(value);
  if (dtype === "float16") return (value) => toHalf(number(value));
  if (dtype === "bfloat16") return (value) => toBrain(number(value));
  if (out instanceof Float32Array || out instanceof Float64Array) return number;
  const probe = new out.constructor(1);
  return (value) => {
    const whole = number(value);
    probe[0] = whole;
    return probe[0] === whole ? whole : refuse(value);
  };
}
var bits = new Uint32Array(1);
var asFloat = new Float32Array(bits.buffer);
function toBrain(value) {
  asFloat[0] = value;
  const word = bits[0];
  if (Number.isNaN(value)) return word >>> 16 | 64;
  return word + 32767 + (word >>> 16 & 1) >>> 16 & 65535;
}
function fromBrain(words) {
  return new Float32Array(Uint32Array.from(words, (word) => word << 16).buffer);
}
function toHalf(value) {
  const sign = value < 0 || Object.is(value, -0) ? 32768 : 0, size = Math.abs(value);
  if (Number.isNaN(value)) return 32256;
  if (size >= 65520) return sign | 31744;
  const exponent = Math.max(-14, Math.floor(Math.log2(size || 1e-30)));
  const step = 2 ** (exponent - 10), steps = toEven(size / step);
  return sign | steps + (exponent + 14 << 10);
}
function toEven(value) {
  const low = Math.floor(value), rest = value - low;
  return rest > 0.5 || rest === 0.5 && low % 2 === 1 ? low + 1 : low;
}
function fromHalf(word) {
  const sign = word & 32768 ? -1 : 1, exponent = word >>> 10 & 31, fraction = word & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

// src/graph.ts
var PRODUCER = 134;
var Output = class {
  constructor(op, index, dtype) {
    this.op = op;
    this.index = index;
    this.dtype = dtype;
  }
  op;
  index;
  dtype;
  get graph() {
    return this.op.graph;
  }
  /** "NAME:INDEX". */
  get name() {
    return `${this.op.name}:${this.index}`;
  }
};
var Operation = class {
  /**
   * @param ranges for each output of the op's signature: its name and how many tensors it is
   */
  constructor(graph, node, inputs, control, dtypes, ranges, isStateful) {
    this.graph = graph;
    this.node = node;
    this.inputs = inputs;
    this.control = control;
    this.ranges = ranges;
    this.isStateful = isStateful;
    this.outputs = dtypes.map((dtype, i) => new Output(this, i, dtype));
  }
  graph;
  node;
  inputs;
  control;
  ranges;
  isStateful;
  outputs;
  get name() {
    return this.node.name;
  }
  get type() {
    return this.node.op;
  }
};
var Graph = class {
  operations = [];
  functions = [];
  names = /* @__PURE__ */ new Set();
  byName = /* @__PURE__ */ new Map();
  device = "";
  after = [];
  /** Place what `build` adds: "/job:ps/task:0". */
  onDevice(device, build) {
    const before = this.device;
    this.device = device;
    try {
      return build();
    } finally {
      this.device = before;
    }
  }
  /** Have what `build` adds run after these. */
  afterwards(operations, build) {
    const before = this.after;
    this.after = [...before, ...operations.map(operationOf)];
    try {
      return build();
    } finally {
      this.after = before;
    }
  }
  /** Find an operation by its name. */
  find(name) {
    return this.byName.get(name);
  }
  /** A name that no operation has: `wanted`, or that with a number behind it. */
  uniqueName(wanted) {
    if (!/^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$/.test(wanted)) throw new TypeError(`${JSON.stringify(wanted)} cannot be an operation's name`);
    let name = wanted;
    for (let i = 1; this.names.has(name.toLowerCase()); i++) name = `${wanted}_${i}`;
    this.names.add(name.toLowerCase());
    return name;
  }
  /** Add a node as it is; ops' own functions (`ops.MatMul`) are what calls this. */
  add(type, inputs, attr, dtypes, ranges, how = {}) {
    for (const input of inputs) {
      if (input.graph !== this) throw new TypeError(`${input.name} belongs to another graph`);
    }
    const control = [.../* @__PURE__ */ new Set([...this.after, ...(how.control ?? []).map(operationOf)])];
    const node = {
      name: this.uniqueName(how.name ?? type),
      op: type,
      input: [...inputs.map(inputName), ...control.map((op) => `^${op.name}`)],
      device: how.device ?? this.device,
      attr
    };
    const made = new Operation(this, node, inputs, control, dtypes, ranges, how.isStateful ?? false);
    this.operations.push(made);
    this.byName.set(made.name, made);
    return made;
  }
  /** Add a node that was made elsewhere, under the name it has; what it gives is named by `Output`s of whoever knows. */
  addNode(node) {
    if (this.names.has(node.name.toLowerCase())) throw new TypeError(`the graph has ${node.name} already`);
    this.names.add(node.name.toLowerCase());
    const made = new Operation(this, node, [], [], [], [], true);
    this.operations.push(made);
    this.byName.set(made.name, made);
    return made;
  }
  addFunction(definition) {
    this.functions.push(definition);
  }
  /** Add a constant. */
  constant(value, dtype, how = {}) {
    const held = tensor(value, dtype, how.shape);
    const attr = /* @__PURE__ */ new Map([["dtype", { type: held.toProto().dtype }], ["value", { tensor: held.toProto() }]]);
    return this.add("Const", [], attr, [held.dtype], [["output", 1]], { name: how.name }).outputs[0];
  }
};
function operationOf(of) {
  return of instanceof Output ? of.op : of;
}
function inputName(input) {
  return input.index === 0 ? input.op.name : input.name;
}

// src/imported.ts
function importGraph(graph, data) {
  const read2 = GraphDef.decode(data);
  for (const one2 of read2.library?.function ?? []) graph.addFunction(one2);
  for (const node of read2.node) graph.addNode(node);
}

// src/session.ts
var Session = class {
  /** Nothing is sent before the first step. */
  constructor(graph, transport, options = {}) {
    this.graph = graph;
    this.transport = transport;
    this.options = options;
  }
  graph;
  transport;
  options;
  handle = "";
  version = 0n;
  sentNodes = 0;
  sentFunctions = 0;
  isClosed = false;
  /** One call at a time changes the graph at the master. */
  growing = Promise.resolve();
  async run(fetches, feeds = [], options = {}) {
    const asked = Array.isArray(fetches) ? fetches : [fetches];
    await this.grow(options);
    const found = await this.step(asked, this.fed(feeds), options.targets ?? [], "", options);
    return Array.isArray(fetches) ? found : found[0];
  }
  /** Set up a step that is fed and fetched in parts: name all that will be. */
  async partialRun(feeds, fetches, options = {}) {
    await this.grow(options);
    const { outputs, targets } = this.sorted(fetches, []);
    const request = { sessionHandle: this.handle, feed: feeds.map((one2) => this.outputName(one2)), fetch: [...new Set(outputs)], target: targets };
    const answer = await this.call("PartialRunSetup", PartialRunSetupRequest, request, PartialRunSetupResponse, options);
    const handle = answer.partialRunHandle;
    return {
      run: async (asked, fed = [], how = {}) => this.step(asked, this.fed(fed), [], handle, how)
    };
  }
  /** List the devices that this session may use. */
  async devices(options = {}) {
    await this.grow(options);
    const found = await this.call("ListDevices", ListDevicesRequest, { sessionHandle: this.handle }, ListDevicesResponse, options);
    return [...found.localDevice, ...found.remoteDevice];
  }
  /** End it at the master. Variables stay where they are; steps that run are cancelled. */
  async close(options = {}) {
    if (this.isClosed) return;
    this.isClosed = true;
    await this.growing.catch(() => void 0);
    if (this.handle !== "") {
      await this.call("CloseSession", CloseSessionRequest, { sessionHandle: this.handle }, CloseSessionResponse, options);
    }
  }
  // The graph at the master -------------------------------------------------------------------------------------------
  grow(options) {
    if (this.isClosed) return Promise.reject(new OpError("FAILED_PRECONDITION", "The session is closed"));
    const next = this.growing.catch(() => void 0).then(() => this.send(options));
    this.growing = next;
    return next;
  }
  async send(options) {
    const { operations, functions } = this.graph;
    const nodes = operations.length, library = functions.length;
    const graphDef = {
      node: operations.slice(this.sentNodes, nodes).map((op) => op.node),
      library: { function: functions.slice(this.sentFunctions, library) },
      versions: { producer: PRODUCER }
    };
    if (this.handle === "") {
      const request = { graphDef, config: this.options.config };
      const answer = await this.call("CreateSession", CreateSessionRequest, request, CreateSessionResponse, { wait: true, timeoutMs: 6e4, ...options });
      this.handle = answer.sessionHandle;
      this.version = answer.graphVersion;
    } else if (nodes > this.sentNodes || library > this.sentFunctions) {
      const request = { sessionHandle: this.handle, graphDef, currentGraphVersion: this.version };
      const answer = await this.call("ExtendSession", ExtendSessionRequest, request, ExtendSessionResponse, options);
      this.version = answer.newGraphVersion;
    }
    this.sentNodes = nodes;
    this.sentFunctions = library;
  }
  // Steps -------------------------------------------------------------------------------------------------------------
  async step(asked, feed, more, partial, options) {
    const { names, outputs, targets } = this.sorted(asked, more);
    const request = {
      sessionHandle: this.handle,
      feed,
      fetch: [...new Set(outputs)],
      target: targets,
      partialRunHandle: partial,
      storeErrorsInResponseBody: true
    };
    const answer = await this.call("RunStep", RunStepRequest, request, RunStepResponse, options);
    if (answer.statusCode !== 0) throw OpError.of(answer.statusCode, answer.statusErrorMessage);
    const found = new Map(answer.tensor.map((named) => [named.name, named.tensor]));
    return names.map((name) => {
      if (name === void 0) return void 0;
      const proto = found.get(name);
      if (proto === void 0) throw new OpError("INTERNAL", `The master's answer lacks ${name}`);
      return Tensor.fromProto(proto);
    });
  }
  sorted(asked, more) {
    const names = asked.map((one2) => one2 instanceof Output || typeof one2 === "string" && one2.includes(":") ? this.outputName(one2) : void 0);
    const only = asked.filter((one2, i) => names[i] === void 0 && !(one2 instanceof Output));
    const targets = [...only, ...more].map((one2) => typeof one2 === "string" ? one2 : one2.name);
    return { names, outputs: names.filter((name) => name !== void 0), targets };
  }
  outputName(of) {
    if (typeof of === "string") return of.includes(":") ? of : `${of}:0`;
    if (of.graph !== this.graph) throw new TypeError(`${of.name} belongs to another graph`);
    return of.name;
  }
  fed(feeds) {
    const pairs = Symbol.iterator in feeds ? feeds : Object.entries(feeds);
    return Array.from(pairs, ([to, value]) => {
      const name = this.outputName(to);
      const known = to instanceof Output ? to : this.graph.find(name.split(":")[0])?.outputs[Number(name.split(":")[1])];
      const held = tensor(value, known?.dtype);
      if (known?.op.type === "Placeholder") refuseMisfit(known, held);
      return { name, tensor: held.toProto() };
    });
  }
  async call(method, kind, request, answer, options) {
    if (options.signal?.aborted) throw aborted(options.signal);
    const how = { timeoutMs: this.options.timeoutMs, ...options };
    return answer.decode(await this.transport.call(method, kind.encode(request), how));
  }
};
function refuseMisfit(to, held) {
  const said = to.op.node.attr?.get("shape")?.shape;
  if (said === void 0 || said.unknownRank) return;
  const wanted = (said.dim ?? []).map((dim) => Number(dim.size));
  const fits = wanted.length === held.shape.length && wanted.every((size, i) => size < 0 || size === held.shape[i]);
  if (!fits) throw new RangeError(`${to.name} is of shape [${wanted}] and is fed a tensor of shape [${held.shape}]`);
}
export {
  ConnectTransport,
  Graph,
  OpError,
  Session,
  Tensor,
  importGraph
};
