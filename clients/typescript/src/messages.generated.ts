// Made by tools/gen_typescript.py; do not edit.

import { message, type Message } from "./wire.js";

/** Element types by TensorFlow's names: the number that stands for each in messages. */
export const DATA_TYPES = {
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
  float4_e2m1fn: 33,
} as const;
export type DType = keyof typeof DATA_TYPES;

export interface AttrValue {
  list?: AttrValue_ListValue;
  s?: Uint8Array;
  i?: bigint;
  f?: number;
  b?: boolean;
  type?: number;
  shape?: TensorShapeProto;
  tensor?: TensorProto;
  placeholder?: string;
  func?: NameAttrList;
}
export const AttrValue: Message<AttrValue> = /* @__PURE__ */ message("AttrValue", [
  ["list", 1, "maybe", () => AttrValue_ListValue],
  ["s", 2, "maybe", "bytes"],
  ["i", 3, "maybe", "int64"],
  ["f", 4, "maybe", "float"],
  ["b", 5, "maybe", "bool"],
  ["type", 6, "maybe", "int32"],
  ["shape", 7, "maybe", () => TensorShapeProto],
  ["tensor", 8, "maybe", () => TensorProto],
  ["placeholder", 9, "maybe", "string"],
  ["func", 10, "maybe", () => NameAttrList],
]);

export interface AttrValue_ListValue {
  s: Uint8Array[];
  i: bigint[];
  f: number[];
  b: boolean[];
  type: number[];
  shape: TensorShapeProto[];
  tensor: TensorProto[];
  func: NameAttrList[];
}
export const AttrValue_ListValue: Message<AttrValue_ListValue> = /* @__PURE__ */ message("AttrValue_ListValue", [
  ["s", 2, "many", "bytes"],
  ["i", 3, "many", "int64"],
  ["f", 4, "many", "float"],
  ["b", 5, "many", "bool"],
  ["type", 6, "many", "int32"],
  ["shape", 7, "many", () => TensorShapeProto],
  ["tensor", 8, "many", () => TensorProto],
  ["func", 9, "many", () => NameAttrList],
]);

export interface CloseSessionRequest {
  sessionHandle: string;
}
export const CloseSessionRequest: Message<CloseSessionRequest> = /* @__PURE__ */ message("CloseSessionRequest", [
  ["sessionHandle", 1, "one", "string"],
]);

export interface CloseSessionResponse {}
export const CloseSessionResponse: Message<CloseSessionResponse> = /* @__PURE__ */ message("CloseSessionResponse", []);

export interface ConfigProto {
  deviceCount: Map<string, number>;
  intraOpParallelismThreads: number;
  placementPeriod: number;
  deviceFilters: string[];
  interOpParallelismThreads: number;
  allowSoftPlacement: boolean;
  logDevicePlacement: boolean;
  usePerSessionThreads: boolean;
  operationTimeoutInMs: bigint;
  isolateSessionState: boolean;
  shareClusterDevicesInSession: boolean;
}
export const ConfigProto: Message<ConfigProto> = /* @__PURE__ */ message("ConfigProto", [
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
  ["shareClusterDevicesInSession", 17, "one", "bool"],
]);

export interface CreateSessionRequest {
  graphDef?: GraphDef;
  config?: ConfigProto;
  target: string;
}
export const CreateSessionRequest: Message<CreateSessionRequest> = /* @__PURE__ */ message("CreateSessionRequest", [
  ["graphDef", 1, "maybe", () => GraphDef],
  ["config", 2, "maybe", () => ConfigProto],
  ["target", 3, "one", "string"],
]);

export interface CreateSessionResponse {
  sessionHandle: string;
  graphVersion: bigint;
}
export const CreateSessionResponse: Message<CreateSessionResponse> = /* @__PURE__ */ message("CreateSessionResponse", [
  ["sessionHandle", 1, "one", "string"],
  ["graphVersion", 2, "one", "int64"],
]);

export interface DeviceAttributes {
  name: string;
  deviceType: string;
  memoryLimit: bigint;
  incarnation: bigint;
  physicalDeviceDesc: string;
  xlaGlobalId: bigint;
}
export const DeviceAttributes: Message<DeviceAttributes> = /* @__PURE__ */ message("DeviceAttributes", [
  ["name", 1, "one", "string"],
  ["deviceType", 2, "one", "string"],
  ["memoryLimit", 4, "one", "int64"],
  ["incarnation", 6, "one", "fixed64"],
  ["physicalDeviceDesc", 7, "one", "string"],
  ["xlaGlobalId", 8, "one", "int64"],
]);

export interface ExtendSessionRequest {
  sessionHandle: string;
  graphDef?: GraphDef;
  currentGraphVersion: bigint;
}
export const ExtendSessionRequest: Message<ExtendSessionRequest> = /* @__PURE__ */ message("ExtendSessionRequest", [
  ["sessionHandle", 1, "one", "string"],
  ["graphDef", 2, "maybe", () => GraphDef],
  ["currentGraphVersion", 3, "one", "int64"],
]);

export interface ExtendSessionResponse {
  newGraphVersion: bigint;
}
export const ExtendSessionResponse: Message<ExtendSessionResponse> = /* @__PURE__ */ message("ExtendSessionResponse", [
  ["newGraphVersion", 4, "one", "int64"],
]);

export interface FunctionDef {
  signature?: OpDef;
  nodeDef: NodeDef[];
  ret: Map<string, string>;
  attr: Map<string, AttrValue>;
  controlRet: Map<string, string>;
  argAttr: Map<number, FunctionDef_ArgAttrs>;
  resourceArgUniqueId: Map<number, number>;
}
export const FunctionDef: Message<FunctionDef> = /* @__PURE__ */ message("FunctionDef", [
  ["signature", 1, "maybe", () => OpDef],
  ["nodeDef", 3, "many", () => NodeDef],
  ["ret", 4, "map string", "string"],
  ["attr", 5, "map string", () => AttrValue],
  ["controlRet", 6, "map string", "string"],
  ["argAttr", 7, "map uint32", () => FunctionDef_ArgAttrs],
  ["resourceArgUniqueId", 8, "map uint32", "uint32"],
]);

export interface FunctionDef_ArgAttrs {
  attr: Map<string, AttrValue>;
}
export const FunctionDef_ArgAttrs: Message<FunctionDef_ArgAttrs> = /* @__PURE__ */ message("FunctionDef_ArgAttrs", [
  ["attr", 1, "map string", () => AttrValue],
]);

export interface FunctionDefLibrary {
  function: FunctionDef[];
  gradient: GradientDef[];
  registeredGradients: RegisteredGradient[];
}
export const FunctionDefLibrary: Message<FunctionDefLibrary> = /* @__PURE__ */ message("FunctionDefLibrary", [
  ["function", 1, "many", () => FunctionDef],
  ["gradient", 2, "many", () => GradientDef],
  ["registeredGradients", 3, "many", () => RegisteredGradient],
]);

export interface GradientDef {
  functionName: string;
  gradientFunc: string;
}
export const GradientDef: Message<GradientDef> = /* @__PURE__ */ message("GradientDef", [
  ["functionName", 1, "one", "string"],
  ["gradientFunc", 2, "one", "string"],
]);

export interface GraphDef {
  node: NodeDef[];
  library?: FunctionDefLibrary;
  version: number;
  versions?: VersionDef;
}
export const GraphDef: Message<GraphDef> = /* @__PURE__ */ message("GraphDef", [
  ["node", 1, "many", () => NodeDef],
  ["library", 2, "maybe", () => FunctionDefLibrary],
  ["version", 3, "one", "int32"],
  ["versions", 4, "maybe", () => VersionDef],
]);

export interface ListDevicesRequest {
  sessionHandle: string;
}
export const ListDevicesRequest: Message<ListDevicesRequest> = /* @__PURE__ */ message("ListDevicesRequest", [
  ["sessionHandle", 1, "one", "string"],
]);

export interface ListDevicesResponse {
  localDevice: DeviceAttributes[];
  remoteDevice: DeviceAttributes[];
}
export const ListDevicesResponse: Message<ListDevicesResponse> = /* @__PURE__ */ message("ListDevicesResponse", [
  ["localDevice", 1, "many", () => DeviceAttributes],
  ["remoteDevice", 2, "many", () => DeviceAttributes],
]);

export interface NameAttrList {
  name: string;
  attr: Map<string, AttrValue>;
}
export const NameAttrList: Message<NameAttrList> = /* @__PURE__ */ message("NameAttrList", [
  ["name", 1, "one", "string"],
  ["attr", 2, "map string", () => AttrValue],
]);

export interface NamedTensorProto {
  name: string;
  tensor?: TensorProto;
}
export const NamedTensorProto: Message<NamedTensorProto> = /* @__PURE__ */ message("NamedTensorProto", [
  ["name", 1, "one", "string"],
  ["tensor", 2, "maybe", () => TensorProto],
]);

export interface NodeDef {
  name: string;
  op: string;
  input: string[];
  device: string;
  attr: Map<string, AttrValue>;
}
export const NodeDef: Message<NodeDef> = /* @__PURE__ */ message("NodeDef", [
  ["name", 1, "one", "string"],
  ["op", 2, "one", "string"],
  ["input", 3, "many", "string"],
  ["device", 4, "one", "string"],
  ["attr", 5, "map string", () => AttrValue],
]);

export interface OpDef {
  name: string;
  inputArg: OpDef_ArgDef[];
  outputArg: OpDef_ArgDef[];
  attr: OpDef_AttrDef[];
  summary: string;
  description: string;
  deprecation?: OpDeprecation;
  isAggregate: boolean;
  isStateful: boolean;
  isCommutative: boolean;
  allowsUninitializedInput: boolean;
  controlOutput: string[];
  isDistributedCommunication: boolean;
}
export const OpDef: Message<OpDef> = /* @__PURE__ */ message("OpDef", [
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
  ["isDistributedCommunication", 21, "one", "bool"],
]);

export interface OpDef_ArgDef {
  name: string;
  description: string;
  type: number;
  typeAttr: string;
  numberAttr: string;
  typeListAttr: string;
  isRef: boolean;
}
export const OpDef_ArgDef: Message<OpDef_ArgDef> = /* @__PURE__ */ message("OpDef_ArgDef", [
  ["name", 1, "one", "string"],
  ["description", 2, "one", "string"],
  ["type", 3, "one", "int32"],
  ["typeAttr", 4, "one", "string"],
  ["numberAttr", 5, "one", "string"],
  ["typeListAttr", 6, "one", "string"],
  ["isRef", 16, "one", "bool"],
]);

export interface OpDef_AttrDef {
  name: string;
  type: string;
  defaultValue?: AttrValue;
  description: string;
  hasMinimum: boolean;
  minimum: bigint;
  allowedValues?: AttrValue;
}
export const OpDef_AttrDef: Message<OpDef_AttrDef> = /* @__PURE__ */ message("OpDef_AttrDef", [
  ["name", 1, "one", "string"],
  ["type", 2, "one", "string"],
  ["defaultValue", 3, "maybe", () => AttrValue],
  ["description", 4, "one", "string"],
  ["hasMinimum", 5, "one", "bool"],
  ["minimum", 6, "one", "int64"],
  ["allowedValues", 7, "maybe", () => AttrValue],
]);

export interface OpDeprecation {
  version: number;
  explanation: string;
}
export const OpDeprecation: Message<OpDeprecation> = /* @__PURE__ */ message("OpDeprecation", [
  ["version", 1, "one", "int32"],
  ["explanation", 2, "one", "string"],
]);

export interface PartialRunSetupRequest {
  sessionHandle: string;
  feed: string[];
  fetch: string[];
  target: string[];
  requestId: bigint;
}
export const PartialRunSetupRequest: Message<PartialRunSetupRequest> = /* @__PURE__ */ message("PartialRunSetupRequest", [
  ["sessionHandle", 1, "one", "string"],
  ["feed", 2, "many", "string"],
  ["fetch", 3, "many", "string"],
  ["target", 4, "many", "string"],
  ["requestId", 5, "one", "int64"],
]);

export interface PartialRunSetupResponse {
  partialRunHandle: string;
}
export const PartialRunSetupResponse: Message<PartialRunSetupResponse> = /* @__PURE__ */ message("PartialRunSetupResponse", [
  ["partialRunHandle", 1, "one", "string"],
]);

export interface RegisteredGradient {
  gradientFunc: string;
  registeredOpType: string;
}
export const RegisteredGradient: Message<RegisteredGradient> = /* @__PURE__ */ message("RegisteredGradient", [
  ["gradientFunc", 1, "one", "string"],
  ["registeredOpType", 2, "one", "string"],
]);

export interface ResetRequest {
  container: string[];
  deviceFilters: string[];
}
export const ResetRequest: Message<ResetRequest> = /* @__PURE__ */ message("ResetRequest", [
  ["container", 1, "many", "string"],
  ["deviceFilters", 2, "many", "string"],
]);

export interface ResetResponse {}
export const ResetResponse: Message<ResetResponse> = /* @__PURE__ */ message("ResetResponse", []);

export interface RunOptions {
  traceLevel: number;
  timeoutInMs: bigint;
  interOpThreadPool: number;
  outputPartitionGraphs: boolean;
  reportTensorAllocationsUponOom: boolean;
}
export const RunOptions: Message<RunOptions> = /* @__PURE__ */ message("RunOptions", [
  ["traceLevel", 1, "one", "int32"],
  ["timeoutInMs", 2, "one", "int64"],
  ["interOpThreadPool", 3, "one", "int32"],
  ["outputPartitionGraphs", 5, "one", "bool"],
  ["reportTensorAllocationsUponOom", 7, "one", "bool"],
]);

export interface RunStepRequest {
  sessionHandle: string;
  feed: NamedTensorProto[];
  fetch: string[];
  target: string[];
  options?: RunOptions;
  partialRunHandle: string;
  storeErrorsInResponseBody: boolean;
  requestId: bigint;
}
export const RunStepRequest: Message<RunStepRequest> = /* @__PURE__ */ message("RunStepRequest", [
  ["sessionHandle", 1, "one", "string"],
  ["feed", 2, "many", () => NamedTensorProto],
  ["fetch", 3, "many", "string"],
  ["target", 4, "many", "string"],
  ["options", 5, "maybe", () => RunOptions],
  ["partialRunHandle", 6, "one", "string"],
  ["storeErrorsInResponseBody", 7, "one", "bool"],
  ["requestId", 8, "one", "int64"],
]);

export interface RunStepResponse {
  tensor: NamedTensorProto[];
  statusCode: number;
  statusErrorMessage: string;
}
export const RunStepResponse: Message<RunStepResponse> = /* @__PURE__ */ message("RunStepResponse", [
  ["tensor", 1, "many", () => NamedTensorProto],
  ["statusCode", 3, "one", "int32"],
  ["statusErrorMessage", 4, "one", "string"],
]);

export interface TensorProto {
  dtype: number;
  tensorShape?: TensorShapeProto;
  versionNumber: number;
  tensorContent: Uint8Array;
  floatVal: number[];
  doubleVal: number[];
  intVal: number[];
  stringVal: Uint8Array[];
  scomplexVal: number[];
  int64Val: bigint[];
  boolVal: boolean[];
  dcomplexVal: number[];
  halfVal: number[];
  uint32Val: number[];
  uint64Val: bigint[];
  float8Val: Uint8Array;
}
export const TensorProto: Message<TensorProto> = /* @__PURE__ */ message("TensorProto", [
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
  ["float8Val", 18, "one", "bytes"],
]);

export interface TensorShapeProto {
  dim: TensorShapeProto_Dim[];
  unknownRank: boolean;
}
export const TensorShapeProto: Message<TensorShapeProto> = /* @__PURE__ */ message("TensorShapeProto", [
  ["dim", 2, "many", () => TensorShapeProto_Dim],
  ["unknownRank", 3, "one", "bool"],
]);

export interface TensorShapeProto_Dim {
  size: bigint;
  name: string;
}
export const TensorShapeProto_Dim: Message<TensorShapeProto_Dim> = /* @__PURE__ */ message("TensorShapeProto_Dim", [
  ["size", 1, "one", "int64"],
  ["name", 2, "one", "string"],
]);

export interface VersionDef {
  producer: number;
  minConsumer: number;
  badConsumers: number[];
}
export const VersionDef: Message<VersionDef> = /* @__PURE__ */ message("VersionDef", [
  ["producer", 1, "one", "int32"],
  ["minConsumer", 2, "one", "int32"],
  ["badConsumers", 3, "many", "int32"],
]);
