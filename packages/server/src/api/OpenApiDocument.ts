/**
 * What the OpenAPI document says besides the endpoints: titles, the token, the events of a stream.
 */
import * as HttpApi from "effect/http-api/HttpApi"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Context from "effect/Context"
import { StreamEvent, version } from "./EventEnvelope.ts"

const bearer = {
  type: "http",
  scheme: "bearer",
  description: "The token in the file `token` of the server's data directory."
}

const open = new Set(["/healthz", "/readyz"])

/** Annotations of the whole API. */
export const annotations = Context.merge(
  OpenApi.annotations({
    title: "Turnstep",
    version: String(version),
    description: "A durable Turn/Step runtime for agents.",
    license: { name: "MIT" },
    transform: (document) => ({
      ...document,
      components: { ...document.components, securitySchemes: { bearer } },
      security: [{ bearer: [] }],
      paths: mapValues(document.paths as Paths, (item, path) =>
        mapValues(item, (operation) => secured(operation, path))
      )
    })
  }),
  Context.make(HttpApi.AdditionalSchemas, [StreamEvent.annotate({ identifier: "StreamEvent" })])
)

type Paths = Readonly<Record<string, Readonly<Record<string, object>>>>

/** Without a word of its own, an operation needs what the document says at its top: the token. */
const secured = (operation: object, path: string): object => {
  const entries = Object.entries(operation).filter(([key]) => key !== "security")
  return Object.fromEntries(open.has(path) ? [...entries, ["security", []]] : entries)
}

const mapValues = <A, B>(record: Readonly<Record<string, A>>, f: (value: A, key: string) => B): Record<string, B> =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, f(value, key)]))
