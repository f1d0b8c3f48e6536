/**
 * Where an MCP server is: a command to start, or an address to call.
 *
 * Owns: the shape, and what of it may be shown. Does not own: connecting (`McpClient`).
 *
 * - E1. What is shown of an endpoint never holds a value of its environment, headers, arguments or query, nor a long part of
 *   its path: they may be secrets.
 */
import * as Redacted from "effect/Redacted"

/** A value that may be a secret. */
export type Value = string | Redacted.Redacted

/** A server that is started here and spoken to over its stdin and stdout. */
export interface Stdio {
  readonly command: string
  readonly args?: ReadonlyArray<string> | undefined
  /** Added to the few variables every process needs (`PATH`, `HOME`, …); no other variable of this process is passed on. */
  readonly env?: Readonly<Record<string, Value>> | undefined
  /** Folder the command is started in; default: that of this process. */
  readonly cwd?: string | undefined
}

/** A server that is called over Streamable HTTP. */
export interface Http {
  readonly url: string
  /** Sent with every request, such as `authorization`. */
  readonly headers?: Readonly<Record<string, Value>> | undefined
}

export type Endpoint = Stdio | Http

export const isStdio = (endpoint: Endpoint): endpoint is Stdio => "command" in endpoint

/** Where the server is, for people (E1). */
export const place = (endpoint: Endpoint): string => {
  if (isStdio(endpoint)) return `the command ${endpoint.command}`
  const url = URL.parse(endpoint.url)
  return url === null ? "an address that is no URL" : url.origin
}

/** The plain values. */
export const plain = (values: Readonly<Record<string, Value>> = {}): Record<string, string> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, text(value)]))

/** Takes what may be a secret out of a text that the server, or an error, has written (E1). */
export const withoutSecrets = (endpoint: Endpoint): ((text: string) => string) => {
  const values = secretsOf(endpoint).filter((value) => value.length >= shortest)
  const longestFirst = [...new Set(values)].toSorted((a, b) => b.length - a.length)
  return (text) => longestFirst.reduce((shown, secret) => shown.replaceAll(secret, "***"), text)
}

/** A shorter value is found in too many words that are no secret. */
const shortest = 6

/** Characters from which on a part of a path is no word any more. */
const longPart = 16

const text = (value: Value): string => (typeof value === "string" ? value : Redacted.value(value))

const secretsOf = (endpoint: Endpoint): ReadonlyArray<string> => {
  if (isStdio(endpoint)) {
    // Arguments that are options or paths say what goes wrong; what follows `=` may be a secret.
    const args = (endpoint.args ?? []).flatMap((arg) => (arg.includes("=") ? [arg.slice(arg.indexOf("=") + 1)] : []))
    return [...Object.values(plain(endpoint.env)), ...args]
  }
  const url = URL.parse(endpoint.url)
  const headers = Object.values(plain(endpoint.headers)).flatMap((value) => [value, ...value.split(" ")])
  return url === null
    ? headers
    : [
        ...headers,
        url.username,
        url.password,
        url.search.slice(1),
        ...url.searchParams.values(),
        ...url.pathname.split("/").filter((part) => part.length >= longPart)
      ]
}
