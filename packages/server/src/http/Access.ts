/**
 * Who may talk to this server: by which name it is called, from which web pages, with which token.
 *
 * Owns: the three checks, as pure decisions on the headers of a request. Does not own: where the token lives (`Token`).
 *
 * - X1. Host, then Origin, then token; before routing and before a byte of the body is read.
 * - X2. Names and origins are compared whole and exactly, ports included; there are no patterns.
 * - X3. The token is compared in constant time, by digests of equal length.
 * - X4. A browser says for which site's page it asks (`sec-fetch-site`). A page of another site may lead its reader to a public
 *   path, and embed nothing: an image needs no script and sends no origin.
 */
import * as Context from "effect/Context"
import * as Redacted from "effect/Redacted"
import { createHash, timingSafeEqual } from "node:crypto"
import type { Code } from "../api/ApiError.ts"

/** The rules of a running server. */
export class Access extends Context.Service<
  Access,
  {
    /** `host:port` as in the header, lowercase. */
    readonly hosts: ReadonlySet<string>
    readonly origins: ReadonlySet<string>
    readonly token: Redacted.Redacted
  }
>()("server/Access") {}

/** Rules for a bind address, with what the operator allows besides. */
export const make = (options: {
  readonly host: string
  readonly port: number
  readonly allowHosts: ReadonlyArray<string>
  readonly allowOrigins: ReadonlyArray<string>
  readonly token: Redacted.Redacted
}): Access["Service"] => {
  const { host, port } = options
  const names = new Set(["127.0.0.1", "localhost", "[::1]", ...(isWildcard(host) ? [] : [bracketed(host)])])
  const own = [...names].flatMap((name) => [`${name}:${port}`, ...(port === 80 ? [name] : [])])
  const hosts = [...own, ...options.allowHosts].map((name) => name.toLowerCase())
  const origins = [...hosts.map((name) => `http://${name}`), ...options.allowOrigins]
  return { hosts: new Set(hosts), origins: new Set(origins), token: options.token }
}

/** A host as it stands in a URL. */
export const bracketed = (host: string): string => (host.includes(":") ? `[${host}]` : host)

/** Whether a bind address stands for every interface. */
export const isWildcard = (host: string): boolean => host === "0.0.0.0" || host === "::" || host === ""

/** Whether a bind address is reached from this machine only. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host)

/** The headers that decide; `hosts` holds every `host` header that came. */
export interface Headers {
  readonly hosts: ReadonlyArray<string>
  readonly origin: string | undefined
  readonly authorization: string | undefined
  /** `sec-fetch-site` and `sec-fetch-dest` of a browser. */
  readonly site: string | undefined
  readonly destination: string | undefined
}

export interface Denial {
  readonly code: Code
  readonly detail: string
}

/** Why a request is not let in, if it is not (X1). `isPublic` requests need no token. */
export const denial = (access: Access["Service"], headers: Headers, isPublic: boolean): Denial | undefined => {
  const [host] = headers.hosts
  if (host === undefined || headers.hosts.length > 1 || !access.hosts.has(host.toLowerCase())) {
    return {
      code: "host-not-allowed",
      detail: `The host "${shown(headers.hosts.join(", "))}" is not one of this server's.`
    }
  }
  if (headers.origin !== undefined && !access.origins.has(headers.origin)) {
    return {
      code: "origin-not-allowed",
      detail: `Pages of the origin "${shown(headers.origin)}" may not use this server.`
    }
  }
  if (
    headers.site === "cross-site" &&
    headers.origin === undefined &&
    !(isPublic && headers.destination === "document")
  ) {
    return { code: "origin-not-allowed", detail: "Pages of other sites may not use this server." }
  }
  if (isPublic) return undefined
  const { authorization } = headers
  if (authorization === undefined) return { code: "unauthorized", detail: "There is no authorization header." }
  const token = /^Bearer +(\S+)$/i.exec(authorization)?.[1]
  if (token === undefined) return { code: "unauthorized", detail: "The authorization header is not a bearer token." }
  return isToken(access, token) ? undefined : { code: "unauthorized", detail: "The token is not this server's." }
}

const isToken = (access: Access["Service"], token: string): boolean =>
  timingSafeEqual(digest(token), digest(Redacted.value(access.token))) // X3

const digest = (text: string): Buffer => createHash("sha256").update(text, "utf8").digest()

/** What a client sent, short and without control characters. */
const shown = (text: string): string => text.replace(/[^\x20-\x7e]/g, "?").slice(0, 100)
