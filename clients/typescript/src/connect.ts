/** Calls over HTTP by the Connect protocol (unary): for browsers, where gRPC cannot go, and for Node. */

import { CODES, OpError, aborted, type Code } from "./errors.js";
import { SERVICE, type CallOptions, type Transport } from "./transport.js";

export class ConnectTransport implements Transport {
  private readonly closing = new AbortController();

  /**
   * @param base the address before "/tensorflow.MasterService/...": "/rpc/train-1/worker/0" on a page of dtfctl's dashboard,
   *   for the state of the job train-1
   * @param headers sent with each call
   */
  constructor(private readonly base: string, private readonly headers: Readonly<Record<string, string>> = {}) {}

  async call(method: string, request: Uint8Array, options: CallOptions = {}): Promise<Uint8Array> {
    const { signal, timeoutMs } = options;
    if (signal?.aborted) throw aborted(signal);
    const late = new AbortController();
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => late.abort(), timeoutMs);
    const signals = [this.closing.signal, late.signal, ...(signal === undefined ? [] : [signal])];
    try {
      const answer = await fetch(`${this.base}/${SERVICE}/${method}`, {
        method: "POST",
        headers: {
          ...this.headers,
          "Content-Type": "application/proto",
          "Connect-Protocol-Version": "1",
          ...(timeoutMs === undefined ? {} : { "Connect-Timeout-Ms": String(Math.ceil(timeoutMs)) }),
        },
        body: request as Uint8Array<ArrayBuffer>,
        signal: AbortSignal.any(signals),
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

  close(): void {
    this.closing.abort();
  }
}

/** What a server means that answers by HTTP's status alone, by Connect's rules. */
const MEANT: Readonly<Record<number, Code>> = {
  400: "INTERNAL", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "UNIMPLEMENTED", 429: "UNAVAILABLE",
  502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "UNAVAILABLE",
};

async function fault(answer: Response): Promise<OpError> {
  const found = (await answer.json().catch(() => ({}))) as { code?: unknown; message?: unknown; error?: unknown };
  const word = String(found.code ?? "").toUpperCase();
  const said = CODES.find((one) => one === word || (one === "CANCELLED" && word === "CANCELED"));
  const text = found.message ?? found.error ?? `HTTP ${answer.status} ${answer.statusText}`;
  return new OpError(said ?? MEANT[answer.status] ?? "UNKNOWN", String(text));
}
