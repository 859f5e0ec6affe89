/** How a session's calls reach a master. */

export interface CallOptions {
  /** Aborting it cancels the step at the server. */
  signal?: AbortSignal | undefined;
  /** The longest that the call may take; the server gives up, too. */
  timeoutMs?: number | undefined;
  /** Wait for a server that does not answer yet, instead of failing at once. */
  wait?: boolean | undefined;
}

export interface Transport {
  /**
   * Call a method of TensorFlow's MasterService.
   *
   * @param method its name: "RunStep"
   * @param request the message, encoded
   * @returns the answer, encoded
   * @throws OpError what the server answered; UNAVAILABLE where it cannot be reached
   */
  call(method: string, request: Uint8Array, options?: CallOptions): Promise<Uint8Array>;
  close(): void;
}

export const SERVICE = "tensorflow.MasterService";
