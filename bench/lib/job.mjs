// The one job every driver does: a turn of N tool steps with this trivial tool, then a final text.
//
// Other sets of drivers (`--drivers DIR`) bring their own copy in `DIR/../lib/job.mjs`; they must keep the form of the
// tool's result and of the prompt, because the model server checks both.

export const SYSTEM = "You are a benchmark agent. Call the lookup tool until the job is done."
export const TOOL = "lookup"
export const TOOL_DESC = "Looks up entry i"
export const PARAMS = {
  type: "object",
  properties: { i: { type: "integer" }, q: { type: "string" } },
  required: ["i", "q"],
  additionalProperties: false
}
export const OPENAI_TOOLS = [{ type: "function", function: { name: TOOL, description: TOOL_DESC, parameters: PARAMS } }]

/** How often the tool ran in this process: the proof that no call was lost or repeated. */
export const counter = { tool: 0 }

const padding = "x".repeat(200)

/** About 215 bytes, a pure function of the arguments. */
export const lookup = ({ i }) => {
  counter.tool++
  return `result ${i} ${padding}`
}

/** The message that starts a turn of `n` tool steps. `extra`: further settings of the script, see `script.mjs`. */
export const prompt = (id, n, extra = "") => `Please do the job. [[bench id=${id} n=${n}${extra ? ` ${extra}` : ""}]]`
