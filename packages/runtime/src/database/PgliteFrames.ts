/**
 * The few frames of PostgreSQL's wire protocol that `PgliteHub` must read or write.
 *
 * A frame is a type byte, a big-endian length that counts itself but not the
 * type, and a body. Everything else of the protocol passes through unread.
 */

/** Frame types, as the protocol's letters. The same byte may mean different things in each direction. */
export const Frontend = { Query: 0x51, Parse: 0x50, Close: 0x43, Sync: 0x53, Terminate: 0x58 } as const
export const Backend = { BackendKeyData: 0x4b, Error: 0x45, Notification: 0x41, ReadyForQuery: 0x5a } as const

/** Codes of the untyped first packet of a connection. */
export const Startup = { v3: 196608, cancel: 80877102, ssl: 80877103, gss: 80877104 } as const

/** Status byte of `ReadyForQuery` outside a transaction; any other value is inside one. */
export const IDLE = 0x49

/** The bytes a frame at `at` occupies, or `undefined` while it is not complete. */
export const frameSize = (bytes: Uint8Array, at: number): number | undefined => {
  if (at + 5 > bytes.length) return undefined
  const size = int32(bytes, at + 1) + 1
  return at + size > bytes.length ? undefined : size
}

export const int32 = (bytes: Uint8Array, at: number): number =>
  ((bytes[at] ?? 0) << 24) | ((bytes[at + 1] ?? 0) << 16) | ((bytes[at + 2] ?? 0) << 8) | (bytes[at + 3] ?? 0)

/** The zero-terminated text at `at`, without its terminator. */
export const text = (bytes: Uint8Array, at: number): string => decoder.decode(bytes.subarray(at, bytes.indexOf(0, at)))

/** Whether the error frame at `at` is one that no session survives. */
export const isFatal = (bytes: Uint8Array, at: number): boolean => {
  for (let field = at + 5; (bytes[field] ?? 0) !== 0; field = bytes.indexOf(0, field) + 1) {
    if (bytes[field] === SEVERITY) return /^(FATAL|PANIC)$/.test(text(bytes, field + 1))
  }
  return false
}

const SEVERITY = 0x56 // "V": "S" may be translated

export const concat = (parts: ReadonlyArray<Uint8Array>): Uint8Array<ArrayBuffer> => {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

export const startup = (parameters: Readonly<Record<string, string>>): Uint8Array<ArrayBuffer> => {
  const body = concat([
    ...Object.entries(parameters).flatMap(([name, value]) => [zeroEnded(name), zeroEnded(value)]),
    new Uint8Array(1)
  ])
  return concat([bigEndian(body.length + 8), bigEndian(Startup.v3), body])
}

export const query = (sql: string): Uint8Array<ArrayBuffer> => frame(Frontend.Query, zeroEnded(sql))

/** Frees prepared statements, with the `Sync` that ends the batch. */
export const closeStatements = (names: Iterable<string>): Uint8Array<ArrayBuffer> =>
  concat([
    ...Array.from(names, (name) => frame(Frontend.Close, concat([encoder.encode("S"), zeroEnded(name)]))),
    frame(Frontend.Sync, new Uint8Array(0))
  ])

export const keyData = (processId: number, secret: number): Uint8Array<ArrayBuffer> =>
  frame(Backend.BackendKeyData, concat([bigEndian(processId), bigEndian(secret)]))

export const ready = (status: number): Uint8Array<ArrayBuffer> => frame(Backend.ReadyForQuery, Uint8Array.of(status))

export const error = (severity: "ERROR" | "FATAL", code: string, message: string): Uint8Array<ArrayBuffer> =>
  frame(
    Backend.Error,
    concat([
      ...[`S${severity}`, `V${severity}`, `C${code}`, `M${message}`].map((field) => zeroEnded(field)),
      new Uint8Array(1)
    ])
  )

const encoder = new TextEncoder()
const decoder = new TextDecoder()

const zeroEnded = (value: string): Uint8Array => encoder.encode(`${value}\0`)

const bigEndian = (value: number): Uint8Array => Uint8Array.of(value >>> 24, value >>> 16, value >>> 8, value)

const frame = (type: number, body: Uint8Array): Uint8Array<ArrayBuffer> =>
  concat([Uint8Array.of(type), bigEndian(body.length + 4), body])
