/**
 * Which MCP servers, with which tools, a human has agreed to. It is kept in the data folder, which no tool reaches.
 *
 * - A1. The first servers that a data folder is started with are agreed to: the human named their file. From then on an entry
 *   that is new or different keeps the server from starting, and a list of tools that is different is not offered.
 * - A2. Entries are known by the digest of what the file says, variables unfilled: no secret is in it.
 */
import * as Canonical from "@turnstep/core/Canonical"
import * as PrivateFolder from "@turnstep/runtime/PrivateFolder"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"

const Approved = Schema.Record(
  Schema.String,
  Schema.Struct({ entry: Schema.String, tools: Schema.optionalKey(Schema.String) })
)
type Approved = typeof Approved.Type

const decode = Schema.decodeUnknownSync(Schema.fromJsonString(Approved))

export interface McpApproval {
  /** The servers of a file that are new or have changed since they were agreed to. */
  readonly changed: (entries: Readonly<Record<string, unknown>>) => ReadonlyArray<string>
  /** Agrees to the servers of a file; lists of tools that were agreed to stay so while their entry does. */
  readonly approve: (entries: Readonly<Record<string, unknown>>) => void
  /** Agrees to the first list of tools of a server, by its digest; false for another one. */
  readonly approveTools: (server: string, digest: string) => Effect.Effect<boolean>
}

/** Reads what was agreed to. With `anew`, lists of tools are agreed to as they are found next. */
export const open = (data: string, anew: boolean): McpApproval => {
  const file = path.join(path.resolve(data), "mcp-approved.json")
  let approved = read(file)
  const keep = (next: Approved) => {
    approved = next
    PrivateFolder.replace(file, `${JSON.stringify(next, undefined, 2)}\n`)
  }
  return {
    changed: (entries) => {
      const known = approved
      if (known === undefined) return [] // A1
      return Object.entries(entries).flatMap(([server, entry]) =>
        known[server]?.entry === Canonical.digest(entry) ? [] : [server]
      )
    },
    approve: (entries) => {
      const next = Object.entries(entries).map(([server, value]) => {
        const entry = Canonical.digest(value)
        const before = approved?.[server]
        const tools = anew || before?.entry !== entry ? undefined : before.tools
        return [server, tools === undefined ? { entry } : { entry, tools }] as const
      })
      keep({ ...approved, ...Object.fromEntries(next) })
    },
    approveTools: (server, digest) =>
      Effect.sync(() => {
        const before = approved?.[server]
        if (before === undefined) return false
        if (before.tools === undefined) keep({ ...approved, [server]: { ...before, tools: digest } })
        return before.tools === undefined || before.tools === digest
      })
  }
}

/** What cannot be read was written by nobody we know: nothing of it counts as agreed to. */
const read = (file: string): Approved | undefined => {
  if (!fs.existsSync(file)) return undefined
  try {
    return decode(fs.readFileSync(file, "utf8"))
  } catch {
    return {}
  }
}
