/**
 * One POST over node:http(s) with a kept-alive connection.
 *
 * Owns: the sockets, and that exactly one of the endings is reported. Does not
 * own: what the body means.
 *
 * - E1. Of `onEnd`, `onRefused` and `onFailure` exactly one is called, once, unless
 *   the exchange is cancelled first; then none is.
 * - E2. Cancelling destroys the socket at once.
 * - E3. A body that ends before its time (reset, missing bytes) is a failure, never an end.
 * - E4. A provider that neither answers nor hangs up is a failure after a while.
 */
import * as http from "node:http"
import * as https from "node:https"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** Told about one exchange. */
export interface Listener {
  /** Decoded text of a 2xx response, cut anywhere but inside a character. */
  readonly onText: (text: string) => void
  /** The 2xx response ended cleanly. */
  readonly onEnd: () => void
  /** The status was not 2xx. */
  readonly onRefused: (response: Refused) => void
  /** There is no (whole) response. */
  readonly onFailure: (description: string) => void
}

/** A response that is not 2xx. */
export interface Refused {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Ways out of a running exchange. */
export interface Running {
  /** Destroys the socket; the listener hears nothing more (E2). */
  readonly cancel: () => void
  /** The listener has what it wants: the rest is read and dropped, so that the socket can be used again. */
  readonly release: () => void
}

/** Sends a body to the endpoint. Throws when a header holds a character that HTTP forbids. */
export type Exchange = (body: string, listener: Listener) => Running

/** Where to send. */
export interface Endpoint {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  /** Milliseconds without a byte after which an exchange is a failure. */
  readonly idleMillis: number
}

/** An endpoint with its own connections, closed with the scope. */
export const make = (endpoint: Endpoint): Effect.Effect<Exchange, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => agentFor(endpoint.url)),
      destroy
    ),
    (agent) => exchange(endpoint, agent)
  )

const agentFor = (url: URL): http.Agent =>
  url.protocol === "https:" ? new https.Agent({ keepAlive: true }) : new http.Agent({ keepAlive: true })

const destroy = (agent: http.Agent): Effect.Effect<void> => Effect.sync(() => agent.destroy())

const exchange = ({ headers, idleMillis, url }: Endpoint, agent: http.Agent): Exchange => {
  const send = url.protocol === "https:" ? https.request : http.request
  const target = {
    agent,
    method: "POST",
    protocol: url.protocol,
    hostname: url.hostname.replace(/^\[(.*)\]$/, "$1"), // an IPv6 address is bracketed in a URL only
    port: url.port,
    path: url.pathname + url.search
  }
  return (body, listener) => {
    let isOpen = true
    let isOver = false
    let isReleased = false
    const settle = (report: () => void): void => {
      if (!isOpen) return
      isOpen = false // E1
      report()
    }
    const bytes = Buffer.from(body)
    const request = send({ ...target, headers: { ...headers, "content-length": bytes.length } }, (response) => {
      const status = response.statusCode ?? 0
      const isGood = status >= 200 && status < 300
      let refusal = ""
      response.setEncoding("utf8")
      response.on("data", (text: string) => {
        if (isReleased) request.destroy() // nothing is due after a response that called itself done
        else if (isGood && isOpen) listener.onText(text)
        else if (refusal.length < maxRefusal) refusal += text
      })
      const refuse = () => listener.onRefused({ status, headers: flat(response.headers), body: refusal })
      response.on("end", () => {
        isOver = true
        settle(isGood ? listener.onEnd : refuse)
      })
      response.on("error", (error) => {
        settle(isGood ? () => listener.onFailure(`the response was cut short: ${describe(error)}`) : refuse) // E3
      })
    })
    request.on("error", (error) => settle(() => listener.onFailure(describe(error))))
    request.setTimeout(idleMillis, () => {
      settle(() => listener.onFailure(`nothing came for ${idleMillis} ms`)) // E4
      request.destroy()
    })
    request.on("close", () => settle(() => listener.onFailure("the connection was closed")))
    request.end(bytes)
    return {
      cancel: () => {
        isOpen = false
        request.destroy()
      },
      release: () => {
        isOpen = false
        isReleased = true
        if (!isOver) request.setTimeout(lingerMillis, () => request.destroy()) // later the socket is another request's
      }
    }
  }
}

/** Characters of a refusal that are read; the rest is dropped. */
const maxRefusal = 65_536

/** Milliseconds an unwanted rest of a response may stay silent before its socket is given up. */
const lingerMillis = 1_000

const describe = (error: Error): string => {
  const code: unknown = Reflect.get(error, "code")
  return typeof code === "string" && !error.message.includes(code) ? `${code}: ${error.message}` : error.message
}

const flat = (headers: http.IncomingHttpHeaders): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, Array.isArray(value) ? value.join(", ") : value]]
    )
  )
