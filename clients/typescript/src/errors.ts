/** What a server says has gone wrong, with TensorFlow's codes, which are gRPC's. */

export const CODES = [
  "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
  "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
] as const;
export type Code = (typeof CODES)[number];

export class OpError extends Error {
  override readonly name = "OpError";

  /**
   * @param code what kind of fault it is: "INVALID_ARGUMENT", "UNAVAILABLE" ...
   * @param message what was wrong, in the server's words
   */
  constructor(readonly code: Code, message: string, options?: { cause?: unknown }) {
    super(message, options);
  }

  /** The code as a number. */
  get number(): number {
    return CODES.indexOf(this.code);
  }

  static of(number: number, message: string, cause?: unknown): OpError {
    return new OpError(CODES[number] ?? "UNKNOWN", message, { cause });
  }
}

/** What a step ends with that was aborted here. */
export function aborted(signal: AbortSignal): OpError {
  return new OpError("CANCELLED", "The call was aborted here", { cause: signal.reason });
}
