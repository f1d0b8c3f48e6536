// Shows how much of the growth with the history a client can avoid: each message is encoded once.
import { lookup, OPENAI_TOOLS } from "../lib/job.mjs"
import { newHistory } from "../lib/raw.mjs"
import rawHttp from "./raw-http.mjs"

const head = `{"model":"mock","stream":true,"stream_options":{"include_usage":true},"tools":${JSON.stringify(OPENAI_TOOLS)},"messages":[`

export default {
  ...rawHttp,
  label: "raw loop over node:http, each message encoded once (the limit in memory)",
  open: async () => ({
    text:
      head +
      newHistory()
        .map((message) => JSON.stringify(message))
        .join(",")
  }),
  turn: async (ctx, session, text, onDelta) => {
    const add = (message) => {
      session.text += `,${JSON.stringify(message)}`
    }
    add({ role: "user", content: text })
    for (;;) {
      const answer = await ctx.call(`${session.text}]}`, onDelta)
      add(answer)
      if (answer.tool_calls === undefined) return answer.content
      for (const call of answer.tool_calls) {
        add({ role: "tool", tool_call_id: call.id, content: lookup(JSON.parse(call.function.arguments)) })
      }
    }
  }
}
