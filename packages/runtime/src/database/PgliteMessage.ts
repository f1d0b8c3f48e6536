/**
 * What crosses the port between the main thread and the database thread.
 *
 * `id` names a virtual connection; the main thread allots it. Bytes are
 * PostgreSQL's wire protocol, unframed.
 */

/** How the thread is started. */
export interface Boot {
  readonly dataDir: string
  readonly sync: boolean
}

export type ToThread =
  | { readonly kind: "open"; readonly id: number }
  | { readonly kind: "data"; readonly id: number; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: "close"; readonly id: number }
  | { readonly kind: "beat" }
  | { readonly kind: "stop" }

export type FromThread =
  | { readonly kind: "ready" }
  | { readonly kind: "data"; readonly id: number; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: "end"; readonly id: number }
  /** Each `beat` is answered, so that beats cannot pile up behind a long statement. */
  | { readonly kind: "beat" }
  /** The database did not start, or is dead: the thread ends right after it. */
  | { readonly kind: "dead"; readonly detail: string }
