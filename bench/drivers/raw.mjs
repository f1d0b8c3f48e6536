import { fetchTransport, newHistory, rawTurn } from "../lib/raw.mjs"

export default {
  label: "raw fetch loop, no framework (the floor)",
  setup: async ({ baseURL }) => ({ call: fetchTransport(baseURL) }),
  open: async () => ({ messages: newHistory() }),
  turn: (ctx, session, text, onDelta) => {
    session.messages.push({ role: "user", content: text })
    return rawTurn({ call: ctx.call, messages: session.messages, onDelta })
  }
}
