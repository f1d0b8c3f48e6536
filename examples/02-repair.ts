// A message history that a provider refuses, checked and mended in your own program. Run it:
//   npx node -C @turnstep/source examples/02-repair.ts
import { repair } from "@turnstep/core/history/Repair"
import { refusals, verify } from "@turnstep/core/history/Verify"

// The process died while the tool ran: the call has no result, and every later request is refused.
const call = { id: "call_1", type: "function", function: { name: "pay", arguments: '{"amount":5}' } }
const messages = [
  { role: "user", content: "Pay the invoice" },
  { role: "assistant", content: null, tool_calls: [call] },
  { role: "user", content: "continue" }
]

console.log(refusals(verify("openai-chat", messages)))
const healed = repair("openai-chat", messages, { profile: "mistral", turn: "terminated" })
console.log(healed.messages, healed.changes)
if (healed.remaining.length > 0) console.log("needs your decision:", healed.remaining)
