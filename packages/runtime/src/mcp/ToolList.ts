/**
 * The tools a server offers at one moment, ready for the model: named, described, with their policy, and with a digest.
 *
 * Owns: what follows from a tool's description, and what has changed between two lists. Does not own: when lists are read
 * (`Connection`).
 *
 * - L1. The model is shown the name's server, the description and the schema as the server wrote them, within limits: no
 *   server fills the requests of the model, and what is over a limit is told (`shortened`).
 * - L2. A server's hints about its tools are believed only when the application trusts it; else every tool may have effects.
 * - L3. A tool that has not changed is the same object in the next list: what was encoded for a request stays encoded.
 */
import type { Tool as Descriptor } from "@modelcontextprotocol/client"
import * as Canonical from "@turnstep/core/Canonical"
import * as ToolOutput from "@turnstep/core/ToolOutput"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Tool from "effect/ai/Tool"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { Check } from "./Arguments.ts"
import * as Arguments from "./Arguments.ts"
import * as ModelName from "./ModelName.ts"

/** What is taken of a server at the most: tools, and characters of a tool's description and of its schema as JSON (L1). */
export const limits = { tools: 1_000, description: 4_096, schema: 65_536 }

/** How the tools of a server are used. */
export interface Rules {
  /** The tools that are offered to the model, by the server's names; default: all. */
  readonly tools?: ReadonlyArray<string> | undefined
  /** Whether `readOnlyHint` and `idempotentHint` are believed (L2). Default false. */
  readonly trust?: boolean | undefined
  /** The effect class of single tools, by the server's names; goes before what the server says. */
  readonly effects?: Readonly<Record<string, ToolPolicy.EffectClass>> | undefined
  /** Asked with the digest of every list that is read whether it may be offered; without it every list is. */
  readonly approve?: ((digest: string) => Effect.Effect<boolean>) | undefined
  /** How long one call may take. Default two minutes. */
  readonly timeout?: Duration.Duration | undefined
}

/** A tool of a list. */
export interface Listed {
  readonly descriptor: Descriptor
  /** Of everything the server says of the tool. */
  readonly digest: string
  readonly tool: Tool.Any
  readonly check: Check | undefined
}

export interface ToolList {
  /** By the server's names, in its order. */
  readonly tools: ReadonlyMap<string, Listed>
  /** Of the digests of the tools. */
  readonly digest: string
  /** What of the server's tools is over a limit, one sentence for each limit (L1). */
  readonly shortened: ReadonlyArray<string>
}

/** Makes a list of what a server has told. */
export const make = (
  server: string,
  descriptors: ReadonlyArray<Descriptor>,
  rules: Rules,
  before: ToolList | undefined,
  refused: ReadonlyArray<string> = []
): ToolList => {
  const allowed = rules.tools === undefined ? undefined : new Set(rules.tools)
  const wanted = descriptors.filter(({ name }) => allowed?.has(name) ?? true)
  const usable = wanted.filter(({ inputSchema }) => JSON.stringify(inputSchema).length <= limits.schema)
  const offered = usable.slice(0, limits.tools)
  const names = ModelName.all(
    server,
    offered.map(({ name }) => name)
  )
  const tools = new Map<string, Listed>()
  for (const descriptor of offered) {
    const name = names.get(descriptor.name) ?? descriptor.name
    const digest = Canonical.digest(descriptor)
    const known = before?.tools.get(descriptor.name)
    const isSame = known?.digest === digest && known.tool.name === name
    tools.set(descriptor.name, isSame ? known : listed(name, descriptor, digest, rules))
  }
  return {
    tools,
    digest: Canonical.digest([...tools.values()].map(({ digest }) => digest).toSorted()),
    shortened: [
      ...refused.slice(0, mostNamed).map((fault) => `the tool ${fault}: it is left out`),
      ...told(refused.length - Math.min(refused.length, mostNamed), "left out: their descriptions cannot be used"),
      ...told(wanted.length - usable.length, `left out: a schema may have ${limits.schema} characters`),
      ...told(usable.length - offered.length, `left out: one server may have ${limits.tools}`),
      ...told(offered.filter(isLongWinded).length, `described in more than ${limits.description} characters, and cut`)
    ]
  }
}

/** Tools that are left out with their names and faults; of more only the number is reported. */
const mostNamed = 10

const told = (tools: number, what: string): ReadonlyArray<string> =>
  tools === 0 ? [] : [`${tools} ${tools === 1 ? "tool is" : "tools are"} ${what}`]

/** The names of what is new, gone or different in a list. */
export const changes = (before: ToolList, after: ToolList) => ({
  added: [...after.tools.keys()].filter((name) => !before.tools.has(name)),
  removed: [...before.tools.keys()].filter((name) => !after.tools.has(name)),
  changed: [...after.tools].flatMap(([name, { digest }]) =>
    (before.tools.get(name)?.digest ?? digest) === digest ? [] : [name]
  )
})

/** The names of an allow-list that no tool of the server has. */
export const missing = (list: ToolList, { tools = [] }: Rules): ReadonlyArray<string> =>
  tools.filter((name) => !list.tools.has(name))

const listed = (name: string, descriptor: Descriptor, digest: string, rules: Rules): Listed => {
  const tool = Tool.dynamic(name, {
    description: descriptionOf(descriptor),
    parameters: descriptor.inputSchema
  })
    .annotate(Tool.Strict, false)
    .annotate(ToolPolicy.Domain, "mcp")
    .annotate(ToolPolicy.Effects, effectsOf(descriptor, rules))
  return {
    descriptor,
    digest,
    tool: rules.timeout === undefined ? tool : tool.annotate(ToolPolicy.Timeout, rules.timeout),
    check: Arguments.check(descriptor.inputSchema)
  }
}

/** What the server says of a tool, within the limit and without half a character at the cut. */
const descriptionOf = (descriptor: Descriptor): string | undefined => {
  const text = said(descriptor)
  return text === undefined || !isLongWinded(descriptor)
    ? text
    : `${ToolOutput.part(text, 0, limits.description - cutMark.length)}${cutMark}`
}

const isLongWinded = (descriptor: Descriptor): boolean => (said(descriptor)?.length ?? 0) > limits.description

const said = ({ description, title }: Descriptor): string | undefined => description ?? title

const cutMark = " […]"

/** L2 */
const effectsOf = ({ annotations, name }: Descriptor, { effects, trust }: Rules): ToolPolicy.EffectClass => {
  const given = effects === undefined || !Object.hasOwn(effects, name) ? undefined : effects[name]
  if (given !== undefined) return given
  if (trust !== true) return "once"
  if (annotations?.readOnlyHint === true) return "pure"
  return annotations?.idempotentHint === true ? "idempotent" : "once"
}
