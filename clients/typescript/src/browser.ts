/** What runs in browsers: all but gRPC and files. */

export { Graph, Operation, Output } from "./graph.js";
export { Session, type Feeds, type Fetch, type Fetched, type PartialRun, type RunOptions, type SessionOptions } from "./session.js";
export { Tensor, tensor, type DType, type Numbers, type TensorLike } from "./tensor.js";
export { CODES, OpError, type Code } from "./errors.js";
export { ConnectTransport } from "./connect.js";
export { importGraph } from "./imported.js";
export { gradients } from "./gradients.js";
export { Adam, Variable, descend, group, initializer, placeholder } from "./train.js";
export type { CallOptions, Transport } from "./transport.js";
export type { Common, Func, Input, Shape } from "./define.js";
export * as ops from "./ops.generated.js";
