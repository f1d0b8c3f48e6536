/**
 * An MCP server over Streamable HTTP.
 *
 * Beside what `@modelcontextprotocol/client` has for this: no answer fills the memory (`BoundedFetch`), and a call hears of it
 * when the stream of its answer has ended. The client takes `onRequestStreamEnd` with a request and does not hand it on, so
 * that a call without an answer would wait until its time is over. What it does hand on is `onresumptiontoken`, which is the
 * call's own here.
 */
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import * as BoundedFetch from "./BoundedFetch.ts"
import * as Endpoint from "./Endpoint.ts"
import * as StdioTransport from "./StdioTransport.ts"

type Send = StreamableHTTPClientTransport["send"]

export class HttpTransport extends StreamableHTTPClientTransport {
  readonly #ends = new WeakMap<(token: string) => void, () => void>()

  constructor(url: URL, headers: Endpoint.Http["headers"]) {
    super(url, {
      fetch: BoundedFetch.make(StdioTransport.maxMessageBytes),
      requestInit: { headers: Endpoint.plain(headers) },
      reconnectionOptions: {
        initialReconnectionDelay: 250,
        maxReconnectionDelay: 2_000,
        reconnectionDelayGrowFactor: 2,
        maxRetries: 3
      }
    })
  }

  /** What a request is to be made with so that `ended` is called when the stream of its answer has ended. */
  listener(ended: () => void): { readonly onresumptiontoken: (token: string) => void } {
    const onresumptiontoken = () => {}
    this.#ends.set(onresumptiontoken, ended)
    return { onresumptiontoken }
  }

  override send(message: Parameters<Send>[0], options?: Parameters<Send>[1]): ReturnType<Send> {
    const ended = options?.onresumptiontoken === undefined ? undefined : this.#ends.get(options.onresumptiontoken)
    return super.send(message, ended === undefined ? options : { ...options, onRequestStreamEnd: ended })
  }
}
