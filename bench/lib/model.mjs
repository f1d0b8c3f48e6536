// The model server: OpenAI Chat Completions (streamed and plain) on loopback, scripted by the history it is sent.
//
// It keeps the times of every request by its own monotonic clock, which all processes of a machine share: the time a
// runtime spends is the sum of the gaps between an answer that is written and the next request that is read, so time
// inside the model is left out exactly.
//
//   GET  /stats?id=ID             per request [read, answered, bytes, step], times in ms
//   GET  /stats?id=ID&arrivals=1  [read, step] of a session with a hold, before it is answered
//   GET  /totals                  counts since the last reset, and the last refusal
//   POST /reset
import http from "node:http"
import { callAt, finalText, read, Refused } from "./script.mjs"

const now = () => Number(process.hrtime.bigint()) / 1e6
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))
const latency = Number(process.env.MODEL_LATENCY_MS ?? 0)

const answered = new Map()
const arrivals = new Map()
/** Sessions whose hold is over: one that is taken up again after a crash goes on. */
const held = new Set()
let totals = { requests: 0, refused: 0, lastRefusal: "" }

const server = http.createServer((request, response) => {
  const url = new URL(request.url, "http://model")
  if (request.method === "GET" && url.pathname === "/stats") {
    const log = url.searchParams.has("arrivals") ? arrivals : answered
    return json(response, 200, log.get(url.searchParams.get("id")) ?? [])
  }
  if (url.pathname === "/totals") return json(response, 200, totals)
  if (url.pathname === "/reset") {
    answered.clear()
    arrivals.clear()
    totals = { requests: 0, refused: 0, lastRefusal: "" }
    return json(response, 200, {})
  }
  if (request.method !== "POST" || !url.pathname.endsWith("/chat/completions")) return json(response, 404, {})
  const chunks = []
  request.on("data", (chunk) => chunks.push(chunk))
  request.on("end", () => void complete(Buffer.concat(chunks), now(), response))
})

const complete = async (bytes, readAt, response) => {
  totals.requests++
  let body
  let place
  try {
    body = JSON.parse(bytes)
    place = read(body.messages)
  } catch (error) {
    totals.refused++
    totals.lastRefusal = error.message
    const type = error instanceof Refused ? "invalid_request_error" : "bad_json"
    return json(response, 400, { error: { message: error.message, type, code: null, param: "messages" } })
  }
  if (latency > 0) await sleep(latency)
  if (place.hold !== undefined) await hold(place, readAt)
  const base = { id: `chatcmpl-${place.id}-${place.earlier}-${place.step}`, created: 1, model: body.model }
  const usage = { prompt_tokens: bytes.length >> 2, completion_tokens: 20, total_tokens: (bytes.length >> 2) + 20 }
  if (body.stream) await stream(response, base, usage, place, body.stream_options?.include_usage === true)
  else json(response, 200, { ...base, object: "chat.completion", choices: [plain(place)], usage })
  push(answered, place.id, [readAt, now(), bytes.length, place.step])
}

const hold = async ({ hold: { at, ms }, id, step }, readAt) => {
  push(arrivals, id, [readAt, step])
  if (step !== at || held.has(id)) return
  held.add(id)
  await sleep(ms)
}

const toolCall = (place) => {
  const { callId, text } = callAt(place)
  return { id: callId, type: "function", function: { name: "lookup", arguments: text } }
}

const plain = (place) => {
  const isTool = place.step < place.n
  const message = isTool
    ? { role: "assistant", content: null, tool_calls: [toolCall(place)] }
    : { role: "assistant", content: finalText(place.id, place.n) }
  return { index: 0, message, finish_reason: isTool ? "tool_calls" : "stop" }
}

const stream = async (response, base, usage, place, wantsUsage) => {
  const chunk = (fields) => `data: ${JSON.stringify({ ...base, object: "chat.completion.chunk", ...fields })}\n\n`
  const choice = (delta, reason = null) => chunk({ choices: [{ index: 0, delta, finish_reason: reason }] })
  const end = (reason) => choice({}, reason) + (wantsUsage ? chunk({ choices: [], usage }) : "") + "data: [DONE]\n\n"
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" })
  if (place.step < place.n) {
    const call = toolCall(place)
    const text = call.function.arguments
    const half = text.length >> 1
    const piece = (part) => choice({ tool_calls: [{ index: 0, function: { arguments: part } }] })
    const opened = { ...call, index: 0, function: { name: "lookup", arguments: "" } }
    response.end(
      choice({ role: "assistant", content: null, tool_calls: [opened] }) +
        piece(text.slice(0, half)) +
        piece(text.slice(half)) +
        end("tool_calls")
    )
    return
  }
  response.write(choice({ role: "assistant", content: "" }))
  if (place.gap > 0) {
    for (let i = 0; i < place.deltas; i++) {
      await sleep(place.gap)
      response.write(choice({ content: `@${process.hrtime.bigint()} ` }))
    }
  } else {
    let all = choice({ content: finalText(place.id, place.n) })
    for (let i = 1; i < place.deltas; i++) all += choice({ content: ` t${i}` })
    response.write(all)
  }
  response.end(end("stop"))
}

const json = (response, status, value) => {
  response.writeHead(status, { "content-type": "application/json" })
  response.end(JSON.stringify(value))
}

const push = (log, id, entry) => {
  const known = log.get(id)
  if (known === undefined) log.set(id, [entry])
  else known.push(entry)
}

server.keepAliveTimeout = 120_000
server.headersTimeout = 130_000
server.requestTimeout = 0
server.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }))
process.on("disconnect", () => process.exit(0))
