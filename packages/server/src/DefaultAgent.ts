/**
 * The agent of a server that was given none: it answers questions about the workspace folder.
 */
import * as Agent from "@turnstep/runtime/Agent"
import * as DemoTools from "@turnstep/runtime/tools/DemoTools"
import * as RunCommand from "@turnstep/runtime/tools/RunCommand"
import type * as ToolSource from "@turnstep/runtime/ToolSource"
import * as Workspace from "@turnstep/runtime/tools/Workspace"
import * as WorkspaceWrite from "@turnstep/runtime/tools/WorkspaceWrite"
import type * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"

/** What the agent may do beside looking. */
export interface Rights {
  readonly allowWrites: boolean
  readonly allowCommands: boolean
}

const instructions = (
  { allowCommands, allowWrites }: Rights,
  sources: ReadonlyArray<{ readonly name: string }>
): string => `You help with the files of one folder, the workspace.
Look before you answer: list, search and read files with the tools, several at once when they do not depend on each other.
${changes(allowWrites, allowCommands)} Name the files (and lines) an answer rests on, and say what you did not find.
${others(sources)}Answer in the language of the question, briefly.`

const changes = (allowWrites: boolean, allowCommands: boolean): string => {
  if (!allowWrites && !allowCommands) return "Tools only read; you cannot change anything."
  const ways = [...(allowWrites ? ["write and edit files"] : []), ...(allowCommands ? ["run commands"] : [])]
  return `You may ${ways.join(" and ")}: do so when you are asked to change something, and say what you changed.`
}

const others = (sources: ReadonlyArray<{ readonly name: string }>): string => {
  if (sources.length === 0) return ""
  const names = sources.map(({ name }) => `${name}__`).join(", ")
  return `Tools whose names begin with ${names} belong to other servers; they are not bound to the workspace, and may change things.\n`
}

/** Looks at files, and changes what it may change. */
export const agent = <Source extends ToolSource.ToolSource<unknown>>(
  rights: Rights,
  sources: ReadonlyArray<Source>
) => {
  const make = <Tools extends Record<string, Tool.Any>>(toolkit: Toolkit.Toolkit<Tools>) =>
    Agent.make("default", { instructions: instructions(rights, sources), toolkit, sources })
  const { allowCommands, allowWrites } = rights
  if (allowWrites && allowCommands) {
    return make(Toolkit.merge(Workspace.toolkit, WorkspaceWrite.toolkit, RunCommand.toolkit))
  }
  if (allowWrites) return make(Toolkit.merge(Workspace.toolkit, WorkspaceWrite.toolkit))
  return allowCommands ? make(Toolkit.merge(Workspace.toolkit, RunCommand.toolkit)) : make(Workspace.toolkit)
}

/** Looks at files for the demo model, with small tools that each show one thing the runtime does. */
export const demo = <Source extends ToolSource.ToolSource<unknown>>(sources: ReadonlyArray<Source>) =>
  Agent.make("default", {
    instructions: instructions({ allowWrites: false, allowCommands: false }, sources),
    toolkit: Toolkit.merge(Workspace.toolkit, DemoTools.toolkit),
    sources
  })

/** The same without tools of others. */
export const demoAgent = demo<ToolSource.ToolSource>([])
