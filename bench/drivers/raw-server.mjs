// The floor of a server: the raw loop behind a node:http endpoint that streams events. Its client is in the same
// process, so CPU is that of both.
import http from "node:http"
import { httpTransport, newHistory, rawTurn } from "../lib/raw.mjs"
import * as Sse from "../lib/sse.mjs"

const frame = (event) => `data: ${JSON.stringify(event)}\n\n`

export default {
  label: "raw loop behind a node:http server, message in, events out",
  setup: async ({ baseURL }) => {
    const call = httpTransport(baseURL)
    const histories = new Map()
    const answer = async (text, response) => {
      const { id, message } = JSON.parse(text)
      const messages = histories.get(id) ?? newHistory()
      histories.set(id, messages)
      messages.push({ role: "user", content: message })
      response.writeHead(200, { "content-type": "text/event-stream" })
      const onDelta = (delta) => response.write(frame({ type: "delta", delta }))
      try {
        await rawTurn({ call, messages, onDelta })
      } catch (error) {
        response.write(frame({ type: "error", message: String(error) }))
      }
      response.end()
    }
    const server = http.createServer((request, response) => {
      let text = ""
      request.on("data", (piece) => {
        text += piece
      })
      request.on("end", () => void answer(text, response))
    })
    await new Promise((listening) => server.listen(0, "127.0.0.1", listening))
    return { server, client: Sse.client(`http://127.0.0.1:${server.address().port}`) }
  },
  open: async (_, id) => ({ id }),
  turn: async (ctx, session, message, onDelta) => {
    let answer = ""
    await ctx.client.events("POST", "/turn", { id: session.id, message }, (event) => {
      if (event.type === "error") throw new Error(event.message)
      answer += event.delta
      onDelta?.(event.delta)
    })
    return answer
  },
  teardown: (ctx) => {
    ctx.client.close()
    ctx.server.close()
  }
}
