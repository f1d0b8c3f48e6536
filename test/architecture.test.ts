/**
 * The layout of the packages, as a list: a file may import only files above it. A file that is not in the list, or that grew
 * too long, fails. To add a file, put its name where what it imports is above it and what imports it is below.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import { stripTypeScriptTypes } from "node:module"
import * as path from "node:path"

/** Folder and file names, from the ground up. */
const floors: ReadonlyArray<readonly [folder: string, files: string]> = [
  ["core/history", "Json"],
  ["core/history/formats", "Content"],
  ["core/history", "Contract Format Arguments Blemish Synthetic Order Media Shape"],
  ["core/history/formats", "AiSdkShape AiSdkModel"],
  ["core/history", "Pairing CallRules History NewId"],
  ["core/history/formats", "AiSdkUi"],
  ["core/history", "Record"],
  ["core/history/formats", "AnthropicThinking"],
  ["core/history", "ToolName"],
  ["core/history/formats", "Anthropic Gemini OpenAiChat OpenAiResponses"],
  [
    "core/history",
    "Rewritten CallRepair Detect Formats PartRules Sequence Unicode Verify Repair Rule ShapeRules RuleBook"
  ],
  ["core", "Canonical Ids Transcript"],
  ["core/history", "FirstCome WellFormedJson ToolArguments Codec"],
  [
    "core/history/codecs",
    "FileData ChatFile ChatOpaque AiSdkModel AiSdkUi Anthropic Gemini OpenAiChat OpenAiResponses"
  ],
  ["core/history", "Codecs Export Import RequestGate"],
  [
    "core",
    "Noise ToolPolicy ToolRules Consent Receipt TurnEvent TurnError FileContent Inbox Journal Admission Budget FailureBudget Breaker Claim CrashPoint Doorbell SpillStore ToolOutput DurableRead Call Start Ledger OpenTurn SetAside SessionState MemoryStore SessionView Accept TurnPlan"
  ],
  ["runtime", "PrivateFolder ProtectedPath"],
  [
    "runtime/database",
    "DirectoryLock DurableNodeFS PgliteMessage PgliteThread Pglite PgliteFrames PgliteHub PgliteWorker PostgresDoorbell Postgres"
  ],
  ["runtime/sql/schema", "Append Guards Tables"],
  [
    "runtime/sql",
    "Place Backlog FactText Projection SqlFailure Outside AppendBatch Migrations SessionLock SqlClaim SqlView SqlJournal SqlStore"
  ],
  ["runtime/model", "AnswerSize"],
  ["runtime/model/openai", "ChatPart ChatUsage"],
  ["runtime/model/openai", "Members ToolCallSlots ChatDecoder Exchange SseDecoder"],
  ["runtime/model", "ContentRefusal ContextWindow RetryAfter RefusalBody ProviderRefusal ToolSchema"],
  ["runtime/model/openai", "Concessions ChatCall ChatMessage ChatRequest"],
  ["runtime/model/aisdk", "CallFault PromptMessage CallOptions PartReader"],
  ["runtime/model/demo", "Conversation Question Reply"],
  ["runtime/spill", "SpillRoom SpillFolder SpillFiles"],
  ["runtime", "LargeOutput ToolCall ToolStream CallRoom"],
  ["runtime/offthread", "TaskMessage TaskMain TaskProcess Lanes OffThread"],
  ["runtime", "ToolHandler ToolSource"],
  [
    "runtime/mcp",
    "BoundedFetch Endpoint McpError StdioTransport HttpTransport ToolFault Link ModelName Arguments Content ToolList Connection"
  ],
  ["runtime/tools", "Mcp"],
  ["runtime/tools", "TextPattern"],
  ["runtime/spill", "SpillSearch"],
  [
    "runtime/tools",
    "SpillTask SpillTools WorkspacePath TextFile WorkspaceTree WorkspaceTask Workspace TextEdit WriteTask FileLocks WorkspaceWrite RunCommand"
  ],
  ["runtime/model/demo", "FilesScript"],
  ["runtime/tools", "DemoOutput DemoTools"],
  ["runtime/model/demo", "OutputScript"],
  ["runtime/model/demo", "Script"],
  [
    "runtime/model",
    "Wire CallSpan ResponseContent AiSdk Demo Handoff ModelPreset DirectFetch OwnedCalls OpenAiChat Models"
  ],
  ["runtime/testing", "ChatContract ChatReply ChatServer StrictProvider"],
  [
    "runtime",
    "TurnConfig AgentRules Agent EventHub EventMetrics StorageHealth Senders StorageWords Owner Prepare RequestGate AnswerBudget ModelAnswer ModelCall Telemetry ToolStop Approval ToolAnswer ToolRun Step Turn Drivers HistoryTask HistoryWork SessionHistory Session PageReads Watch FrontDoor LocalSessions Runtime"
  ],
  ["server/api", "ApiError EventEnvelope HistoryBody Body Guard OpenApiDocument Api Client EventStream"],
  ["server/http", "Access"],
  ["server", "Config McpFile DefaultAgent Version"],
  [
    "server/http",
    "About Problem BodyGuard Docs Metrics EventWriter Outflow Streams UnderWay Gate HistoryHandlers Page SessionHandlers Entries InboxHandlers RecordHandlers SpillHandlers SystemHandlers TurnHandlers"
  ],
  ["server", "Server McpApproval DataFolder Token Database Launch"],
  [
    "server/cli",
    "Connection Keyboard Transcript Chat Lifetime Settings Dev Doctor HistoryDocument HistoryText HistoryInput HistoryReport Export Import Repair Migrate Serve SessionCommand Verify"
  ],
  ["server", "main"]
]

const longest = 400

/** What is not written in packages, and the files that may, with the reason. */
const banned: ReadonlyArray<{ readonly what: RegExp; readonly but?: { readonly [file: string]: string } }> = [
  { what: /\bDate\.now\(|\bnew Date\(|\bMath\.random\(|\brandomUUID\(/ },
  { what: /(?<!\.)\bset(Timeout|Interval)\(/ },
  { what: /\bEffect\.run(Promise|Sync|Fork|Callback)/ },
  { what: /\bas any\b|@ts-(ignore|expect-error|nocheck)/ },
  {
    what: /\bEffect\.catchCause\(/,
    but: {
      "runtime/sql/SqlClaim": "a lease that could not be renewed is renewed later, whatever went wrong",
      "server/http/Gate": "the edge: whatever went wrong becomes a problem with an opaque id",
      "server/http/SystemHandlers": "whatever keeps the storage from answering, it is not ready"
    }
  }
]

const packages = path.join(import.meta.dirname, "../packages")
const order = floors.flatMap(([folder, files]) => files.split(" ").map((file) => `${folder}/${file}`))
const place = new Map(order.map((file, index) => [file, index]))

const sourceOf = (file: string): string => path.join(packages, file.replace("/", "/src/")) + ".ts"
const textOf = (file: string): string => fs.readFileSync(sourceOf(file), "utf8")

const filesOf = (folder: string): ReadonlyArray<string> =>
  fs.readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"))

/** What a file imports from the packages, by their names in the list. */
const importsOf = (file: string): ReadonlyArray<string> =>
  [...textOf(file).matchAll(/(?:from|import\()\s*"((?:\.|@turnstep\/)[^"]+)"/g)].map(([, name = ""]) =>
    name.startsWith("@turnstep/")
      ? name.slice("@turnstep/".length)
      : path.posix.join(path.posix.dirname(file), name).replace(/\.ts$/, "")
  )

/** A text without its comments. */
const codeOf = (file: string): string => textOf(file).replaceAll(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, "")

/** Names in a statement that no schema stands before: a search path would say which table or function they mean. */
const unplaced = (code: string, tables: ReadonlyArray<string>): ReadonlyArray<string> => {
  const table = new RegExp(
    `\\b(?:from|join|into|update|table|only|on)\\s+(?:if (?:not )?exists\\s+)?(?:${tables.join("|")})\\b`,
    "gi"
  )
  return [...code.matchAll(table), ...code.matchAll(/(?<![.\w])turnstep_\w+ *\(/g)].map(([found]) => found)
}

describe("the architecture", () => {
  it("lists every file of the packages, and only those", () => {
    const found = ["core", "runtime", "server"].flatMap((name) =>
      filesOf(path.join(packages, name, "src")).map((file) => `${name}/${file.replace(/\.ts$/, "")}`)
    )
    assert.sameMembers(order, found)
    assert.strictEqual(place.size, order.length)
  })

  it("lets imports point down only", () => {
    const upward = order.flatMap((file, index) =>
      importsOf(file)
        .filter((imported) => !((place.get(imported) ?? Infinity) < index))
        .map((imported) => `${file} imports ${imported}`)
    )
    assert.isEmpty(upward)
  })

  it("keeps files short", () => {
    assert.isEmpty(order.filter((file) => textOf(file).split("\n").length > longest + 1))
  })

  it("keeps time, chance, runs and casts out of the packages", () => {
    const written = banned.flatMap(({ but = {}, what }) =>
      order.filter((file) => what.test(textOf(file)) && !(file in but)).map((file) => `${file}: ${what}`)
    )
    assert.isEmpty(written)
    const needless = banned.flatMap(({ but = {}, what }) => Object.keys(but).filter((file) => !what.test(textOf(file))))
    assert.isEmpty(needless)
  })

  it("names no table and no function of the database without its schema", () => {
    const tables = order.flatMap((file) =>
      [...codeOf(file).matchAll(/create table :schema\.(\w+)/g)].map(([, name = ""]) => name)
    )
    assert.include(tables, "tool_attempts")
    assert.lengthOf(unplaced("select 1 from sessions s join ${schema}.events e", tables), 1)
    assert.lengthOf(unplaced("select turnstep_create(1), ${schema}.turnstep_create(2)", tables), 1)
    assert.isEmpty(order.flatMap((file) => unplaced(codeOf(file), tables).map((name) => `${file}: ${name}`)))
  })

  it("is written in TypeScript whose types Node can strip", () => {
    const refused = order.flatMap((file) => {
      try {
        stripTypeScriptTypes(textOf(file))
        return []
      } catch (error) {
        return [`${file}: ${String(error)}`]
      }
    })
    assert.isEmpty(refused)
    assert.throws(() => stripTypeScriptTypes("enum Colour { red }"))
  })
})
