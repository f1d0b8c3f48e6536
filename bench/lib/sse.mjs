// A client of servers that answer with server-sent events, over node:http on kept connections.
import http from "node:http"

/** Requests to a base URL: `json` awaits a body, `events` calls back for each event of a stream and ends with it. */
export const client = (base, headers = {}) => {
  const agent = new http.Agent({ keepAlive: true })
  const send = (method, path, body, extra, onResponse) =>
    new Promise((resolve, reject) => {
      const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
      const length = bytes === undefined ? {} : { "content-type": "application/json", "content-length": bytes.length }
      const options = { method, agent, headers: { ...headers, ...extra, ...length } }
      const request = http.request(new URL(base + path), options, (response) => {
        response.setEncoding("utf8")
        response.on("error", reject)
        onResponse(response, resolve, reject)
      })
      request.on("error", reject)
      request.end(bytes)
    })
  const whole = (response, done) => {
    let text = ""
    response.on("data", (piece) => {
      text += piece
    })
    response.on("end", () => done(text))
  }
  const refused = (response, reject) =>
    whole(response, (text) => reject(new Error(`HTTP ${response.statusCode} ${text}`)))
  return {
    json: (method, path, body) =>
      send(method, path, body, {}, (response, resolve, reject) => {
        if (response.statusCode >= 300) return refused(response, reject)
        whole(response, (text) => resolve(JSON.parse(text)))
      }),
    events: (method, path, body, onEvent) =>
      send(method, path, body, { accept: "text/event-stream" }, (response, resolve, reject) => {
        if (response.statusCode >= 300) return refused(response, reject)
        let rest = ""
        response.on("data", (piece) => {
          rest += piece
          for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
            const data = dataOf(rest.slice(0, end))
            rest = rest.slice(end + 2)
            if (data !== undefined) onEvent(JSON.parse(data))
          }
        })
        response.on("end", resolve)
      }),
    close: () => agent.destroy()
  }
}

const dataOf = (frame) => {
  const at = frame.startsWith("data: ") ? 0 : frame.indexOf("\ndata: ") + 1
  if (at === 0 && !frame.startsWith("data: ")) return undefined
  const end = frame.indexOf("\n", at)
  return frame.slice(at + 6, end < 0 ? undefined : end)
}
