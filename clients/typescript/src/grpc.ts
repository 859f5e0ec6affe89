/** Calls over gRPC, as TensorFlow's own clients make them: Node only. */

import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";

import { Client, Metadata, credentials, status, type ChannelCredentials, type ServiceError } from "@grpc/grpc-js";

import { OpError, aborted } from "./errors.js";
import { SERVICE, type CallOptions, type Transport } from "./transport.js";

/** Who this client is to tasks that ask: three files in PEM, and the name that the task's certificate is valid for. */
export interface Tls {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  readonly serverName: string;
}

export class GrpcTransport implements Transport {
  private readonly client: Client;
  private readonly metadata = new Metadata();

  /**
   * @param target "grpc://HOST:PORT", or "unix:PATH?job=..." as `DTF_TARGET` says it in jobs of dtfctl
   * @param tls certificates; without, nothing is encrypted (a stock TensorFlow server, `dtfctl connect`)
   */
  constructor(target: string, tls?: Tls) {
    const [address, scope] = target.replace(/^grpc:\/\//, "").split("?");
    if (scope !== undefined) this.metadata.set("dtf-job", scope);
    this.client = new Client(address!, credentialsOf(tls), {
      "grpc.max_receive_message_length": -1,
      "grpc.max_send_message_length": -1,
      "grpc.use_local_subchannel_pool": 1,
      ...(tls === undefined ? {} : { "grpc.ssl_target_name_override": tls.serverName, "grpc.default_authority": tls.serverName }),
    });
  }

  call(method: string, request: Uint8Array, options: CallOptions = {}): Promise<Uint8Array> {
    const { signal, timeoutMs, wait } = options;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(aborted(signal));
        return;
      }
      const deadline = timeoutMs === undefined ? undefined : Date.now() + timeoutMs;
      const metadata = this.metadata.clone();
      metadata.setOptions({ waitForReady: wait ?? false });
      const answered = (error: ServiceError | null, answer?: Buffer): void => {
        signal?.removeEventListener("abort", cancel);
        if (error === null) resolve(answer!);
        else if (signal?.aborted && error.code === status.CANCELLED) reject(aborted(signal));
        else reject(OpError.of(error.code, error.details, error));
      };
      const made = this.client.makeUnaryRequest(
        `/${SERVICE}/${method}`,
        (data: Uint8Array) => Buffer.from(data.buffer, data.byteOffset, data.byteLength),
        (data: Buffer) => data,
        request,
        metadata,
        deadline === undefined ? {} : { deadline },
        answered,
      );
      const cancel = (): void => made.cancel();
      signal?.addEventListener("abort", cancel, { once: true });
    });
  }

  close(): void {
    this.client.close();
  }
}

function credentialsOf(tls: Tls | undefined): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure();
  return credentials.createSsl(readFileSync(tls.ca), readFileSync(tls.key), readFileSync(tls.cert));
}
