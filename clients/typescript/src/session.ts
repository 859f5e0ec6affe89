/** Sessions: a graph at a master, and steps of it. */

import { Graph, Operation, Output } from "./graph.js";
import { PRODUCER } from "./graph.js";
import { OpError, aborted } from "./errors.js";
import {
  CloseSessionRequest, CloseSessionResponse, ConfigProto, CreateSessionRequest, CreateSessionResponse,
  ExtendSessionRequest, ExtendSessionResponse, ListDevicesRequest, ListDevicesResponse, PartialRunSetupRequest,
  PartialRunSetupResponse, RunStepRequest, RunStepResponse, type DeviceAttributes, type GraphDef,
} from "./messages.generated.js";
import { Tensor, tensor, type TensorLike } from "./tensor.js";
import type { CallOptions, Transport } from "./transport.js";
import type { Init, Message } from "./wire.js";

/** What is fetched: an output, also by its name "NAME:0", or an operation to be run only. */
export type Fetch = Output | Operation | string;
/** What is fed: values by output or by its name. */
export type Feeds = Iterable<readonly [Output | string, TensorLike]> | Readonly<Record<string, TensorLike>>;
/** What a fetch gives: operations, and names without ":0", give nothing. */
export type Fetched<T> = T extends Output ? Tensor : T extends Operation ? undefined : Tensor | undefined;
type FetchedAll<T extends readonly Fetch[]> = { -readonly [K in keyof T]: Fetched<T[K]> };

export interface RunOptions extends CallOptions {
  /** Operations that are run, too. */
  readonly targets?: readonly (Operation | string)[];
}

export interface SessionOptions {
  /** As in TensorFlow: allowSoftPlacement, deviceFilters, operationTimeoutInMs ... */
  readonly config?: Init<ConfigProto>;
  /** The longest that each call may take where nothing else is said. */
  readonly timeoutMs?: number;
}


export class Session {
  private handle = "";
  private version = 0n;
  private sentNodes = 0;
  private sentFunctions = 0;
  private isClosed = false;
  /** One call at a time changes the graph at the master. */
  private growing: Promise<void> = Promise.resolve();

  /** Nothing is sent before the first step. */
  constructor(readonly graph: Graph, private readonly transport: Transport, private readonly options: SessionOptions = {}) {}

  /**
   * Run a step.
   *
   * @returns a tensor for each output that is fetched, and undefined for each operation
   * @throws OpError what the master says, CANCELLED after an abort, DEADLINE_EXCEEDED after `timeoutMs`
   */
  run<const T extends readonly Fetch[]>(fetches: T, feeds?: Feeds, options?: RunOptions): Promise<FetchedAll<T>>;
  run<T extends Fetch>(fetch: T, feeds?: Feeds, options?: RunOptions): Promise<Fetched<T>>;
  async run(fetches: Fetch | readonly Fetch[], feeds: Feeds = [], options: RunOptions = {}): Promise<unknown> {
    const asked = Array.isArray(fetches) ? (fetches as readonly Fetch[]) : [fetches as Fetch];
    await this.grow(options);
    const found = await this.step(asked, this.fed(feeds), options.targets ?? [], "", options);
    return Array.isArray(fetches) ? found : found[0];
  }

  /** Set up a step that is fed and fetched in parts: name all that will be. */
  async partialRun(feeds: readonly (Output | string)[], fetches: readonly Fetch[], options: CallOptions = {}): Promise<PartialRun> {
    await this.grow(options);
    const { outputs, targets } = this.sorted(fetches, []);
    const request = { sessionHandle: this.handle, feed: feeds.map((one) => this.outputName(one)), fetch: [...new Set(outputs)], target: targets };
    const answer = await this.call("PartialRunSetup", PartialRunSetupRequest, request, PartialRunSetupResponse, options);
    const handle = answer.partialRunHandle;
    return {
      run: async (asked: readonly Fetch[], fed: Feeds = [], how: CallOptions = {}) => this.step(asked, this.fed(fed), [], handle, how),
    } as PartialRun;
  }

  /** List the devices that this session may use. */
  async devices(options: CallOptions = {}): Promise<DeviceAttributes[]> {
    await this.grow(options);
    const found = await this.call("ListDevices", ListDevicesRequest, { sessionHandle: this.handle }, ListDevicesResponse, options);
    return [...found.localDevice, ...found.remoteDevice];
  }

  /** End it at the master. Variables stay where they are; steps that run are cancelled. */
  async close(options: CallOptions = {}): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    await this.growing.catch(() => undefined);
    if (this.handle !== "") {
      await this.call("CloseSession", CloseSessionRequest, { sessionHandle: this.handle }, CloseSessionResponse, options);
    }
  }

  // The graph at the master -------------------------------------------------------------------------------------------

  private grow(options: CallOptions): Promise<void> {
    if (this.isClosed) return Promise.reject(new OpError("FAILED_PRECONDITION", "The session is closed"));
    const next = this.growing.catch(() => undefined).then(() => this.send(options));
    this.growing = next;
    return next;
  }

  private async send(options: CallOptions): Promise<void> {
    const { operations, functions } = this.graph;
    const nodes = operations.length, library = functions.length;
    const graphDef: Init<GraphDef> = {
      node: operations.slice(this.sentNodes, nodes).map((op) => op.node),
      library: { function: functions.slice(this.sentFunctions, library) },
      versions: { producer: PRODUCER },
    };
    if (this.handle === "") {
      const request = { graphDef, config: this.options.config };
      const answer = await this.call("CreateSession", CreateSessionRequest, request, CreateSessionResponse, { wait: true, timeoutMs: 60_000, ...options });
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

  private async step(
    asked: readonly Fetch[], feed: readonly { name: string; tensor: ReturnType<Tensor["toProto"]> }[],
    more: readonly (Operation | string)[], partial: string, options: CallOptions,
  ): Promise<(Tensor | undefined)[]> {
    const { names, outputs, targets } = this.sorted(asked, more);
    const request = {
      sessionHandle: this.handle, feed, fetch: [...new Set(outputs)], target: targets, partialRunHandle: partial,
      storeErrorsInResponseBody: true,
    };
    const answer = await this.call("RunStep", RunStepRequest, request, RunStepResponse, options);
    if (answer.statusCode !== 0) throw OpError.of(answer.statusCode, answer.statusErrorMessage);
    const found = new Map(answer.tensor.map((named) => [named.name, named.tensor]));
    return names.map((name) => {
      if (name === undefined) return undefined;
      const proto = found.get(name);
      if (proto === undefined) throw new OpError("INTERNAL", `The master's answer lacks ${name}`);
      return Tensor.fromProto(proto);
    });
  }

  private sorted(asked: readonly Fetch[], more: readonly (Operation | string)[]) {
    const names = asked.map((one) => (one instanceof Output || (typeof one === "string" && one.includes(":")) ? this.outputName(one) : undefined));
    const only = asked.filter((one, i): one is Operation | string => names[i] === undefined && !(one instanceof Output));
    const targets = [...only, ...more].map((one) => (typeof one === "string" ? one : one.name));
    return { names, outputs: names.filter((name) => name !== undefined), targets };
  }

  private outputName(of: Output | string): string {
    if (typeof of === "string") return of.includes(":") ? of : `${of}:0`;
    if (of.graph !== this.graph) throw new TypeError(`${of.name} belongs to another graph`);
    return of.name;
  }

  private fed(feeds: Feeds): { name: string; tensor: ReturnType<Tensor["toProto"]> }[] {
    const pairs = Symbol.iterator in feeds ? (feeds as Iterable<readonly [Output | string, TensorLike]>) : Object.entries(feeds);
    return Array.from(pairs, ([to, value]) => {
      const name = this.outputName(to);
      const known = to instanceof Output ? to : this.graph.find(name.split(":")[0]!)?.outputs[Number(name.split(":")[1])];
      const held = tensor(value, known?.dtype);
      if (known?.op.type === "Placeholder") refuseMisfit(known, held);
      return { name, tensor: held.toProto() };
    });
  }

  private async call<Q, A>(method: string, kind: Message<Q>, request: Init<Q>, answer: Message<A>, options: CallOptions): Promise<A> {
    if (options.signal?.aborted) throw aborted(options.signal);
    const how = { timeoutMs: this.options.timeoutMs, ...options };
    return answer.decode(await this.transport.call(method, kind.encode(request), how));
  }
}

/** Servers do not look at what a placeholder says of its shape: what they are fed goes where it would have gone. */
function refuseMisfit(to: Output, held: Tensor): void {
  const said = to.op.node.attr?.get("shape")?.shape;
  if (said === undefined || said.unknownRank) return;
  const wanted = (said.dim ?? []).map((dim) => Number(dim.size));
  const fits = wanted.length === held.shape.length && wanted.every((size, i) => size < 0 || size === held.shape[i]);
  if (!fits) throw new RangeError(`${to.name} is of shape [${wanted}] and is fed a tensor of shape [${held.shape}]`);
}

/** A step that is fed and fetched in parts. */
export interface PartialRun {
  run<const T extends readonly Fetch[]>(fetches: T, feeds?: Feeds, options?: CallOptions): Promise<FetchedAll<T>>;
}

