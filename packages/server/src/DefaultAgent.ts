/**
 * The agent of a server that was given none: it answers questions about the workspace folder.
 */
import * as Agent from "@turnstep/runtime/Agent"
import * as DemoTools from "@turnstep/runtime/tools/DemoTools"
import * as Workspace from "@turnstep/runtime/tools/Workspace"
import * as Toolkit from "effect/ai/Toolkit"

const instructions = `You help with the files of one folder, the workspace.
Look before you answer: list, search and read files with the tools, several at once when they do not depend on each other.
Tools only read; you cannot change anything. Name the files (and lines) an answer rests on, and say what you did not find.
Answer in the language of the question, briefly.`

/** Looks at files. */
export const agent = Agent.make("default", { instructions, toolkit: Workspace.toolkit })

/** The same for the demo model, with small tools that each show one thing the runtime does. */
export const demoAgent = Agent.make("default", {
  instructions,
  toolkit: Toolkit.merge(Workspace.toolkit, DemoTools.toolkit)
})
