/**
 * The scripted demo: which script answers which message.
 *
 * Owns: the intents, and what is said when a Turn must end without tools. Does not
 * own: how a reply becomes a response (`Demo`).
 *
 * - I1. A reply is a function of the prompt and the tools offered, of nothing else.
 * - I2. Without tools no tool is called: the reply tells what was done, and claims no more.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { CurrentTime, JobStatus, SlowProgress, StartJob, UnreliableTool } from "../../tools/DemoTools.ts"
import { callsOf, type Conversation, intentOf, read } from "./Conversation.ts"
import * as FilesScript from "./FilesScript.ts"
import * as OutputScript from "./OutputScript.ts"
import { act, answer, count, type Reply, type Script, short, trouble, troubles, valueOf } from "./Reply.ts"

/** What the request offers besides its messages. */
export interface Offer {
  /** Names of the tools that may be called; none when tools are switched off. */
  readonly tools: ReadonlySet<string>
}

/** The next Step of the Turn a prompt is in (I1). */
export const reply = (messages: ReadonlyArray<Prompt.Message>, offer: Offer): Reply => {
  const turn = read(messages, knownWords)
  const known = turn.intent === undefined ? undefined : intents.get(turn.intent.word)
  if (known === undefined)
    return turn.batches.length > 0 ? handBack(turn, "I do not see any more what I was asked") : help(turn)
  if (offer.tools.size === 0) return handBack(turn, "I may call no more tools") // I2
  const missing = known.tools.filter((name) => !offer.tools.has(name))
  if (missing.length > 0) {
    return answer(turn, `/${turn.intent?.word} needs ${missing.join(" and ")}, which this agent does not offer.`)
  }
  return known.script(turn)
}

interface KnownIntent {
  readonly usage: string
  readonly shows: string
  readonly tools: ReadonlyArray<string>
  readonly script: Script
}

const time: Script = (turn) => {
  const [call] = callsOf(turn)
  if (call === undefined) {
    const timeZone = turn.intent?.rest ?? ""
    return act("Asking the clock.", { name: "current_time", params: timeZone === "" ? {} : { timeZone } })
  }
  const value = valueOf(call)
  const iso = typeof value === "string" ? Option.some(value) : Option.map(decodeTime(value), (time) => time.iso)
  const told =
    call.result?.isFailure === true ? Option.none() : Option.map(iso, (text) => `The tool says it is ${text}.`)
  return answer(
    turn,
    Option.getOrElse(told, () => unusable(turn))
  )
}

const slow: Script = (turn) => {
  const [call] = callsOf(turn)
  if (call === undefined) {
    const asked = Number.parseFloat(turn.intent?.rest ?? "")
    const seconds = Number.isFinite(asked) ? Math.min(Math.max(asked, 0), 600) : 20
    return act(`Starting a task of ${count(seconds, "second")}. Steer me or cancel me meanwhile.`, {
      name: "slow_task",
      params: { seconds, label: "demo" }
    })
  }
  const told = Option.map(
    decodeSlow(valueOf(call)),
    ({ elapsed }) => `The task finished after ${count(elapsed, "second")}.`
  )
  return answer(
    turn,
    Option.getOrElse(told, () => unusable(turn))
  )
}

const steps: Script = (turn) => {
  const n = turn.batches.length + 1
  return act(`Step ${n}; I never stop by myself.`, { name: "count_step", params: { n } })
}

const loop: Script = () =>
  act("Asking the same as before; nothing I am told will make me stop.", { name: "count_step", params: { n: 1 } })

const poll: Script = (turn) => {
  const job = Option.map(decodeJob(valueOf(callsOf(turn).find(({ name }) => name === "start_job"))), ({ job }) => job)
  if (turn.batches.length === 0) {
    const asked = Number.parseFloat(turn.intent?.rest ?? "")
    const seconds = Number.isFinite(asked) ? Math.min(Math.max(asked, 0), 6) : 3
    return act(`Starting a job of ${count(seconds, "second")}.`, { name: "start_job", params: { seconds } })
  }
  const last = callsOf(turn).findLast(({ name }) => name === "job_status")
  const status = decodeStatus(valueOf(last))
  if (Option.isSome(job) && (last === undefined || (Option.isSome(status) && status.value.state === "running"))) {
    const seen = Option.match(status, { onNone: () => "", onSome: ({ percent }) => `${percent} % so far. ` })
    return act(`${seen}Asking how far it has come.`, { name: "job_status", params: { job: job.value } })
  }
  const asked = turn.batches.length - 1
  return answer(
    turn,
    Option.isSome(status)
      ? `The job is ${status.value.state} (${status.value.percent} %). I asked ${count(asked, "time")} with the same call; ` +
          "each answer was new, so that was no loop."
      : unusable(turn)
  )
}

const fail: Script = (turn) => {
  const [first, second] = callsOf(turn)
  if (first === undefined) {
    return act("Calling a tool that fails at its first attempt.", { name: "unreliable", params: { attempt: 1 } })
  }
  const failed = trouble(first)
  if (second === undefined && failed !== undefined && first.result?.receipt === undefined) {
    return act(`${failed} Trying again with another argument.`, { name: "unreliable", params: { attempt: 2 } })
  }
  const told = Option.map(decodeUnreliable(valueOf(second ?? first)), ({ attempt, message }) =>
    [...troubles(turn), `Recovered at attempt ${attempt}: ${message}`].join(" ")
  )
  return answer(
    turn,
    Option.getOrElse(told, () => unusable(turn))
  )
}

const intentByWord = {
  time: { usage: "/time [time zone]", shows: "one tool call and its result", tools: ["current_time"], script: time },
  files: {
    usage: "/files <question>",
    shows: "several Steps with parallel calls on real files, e.g. /files how many TODO comments are under packages?",
    tools: FilesScript.tools,
    script: FilesScript.script
  },
  slow: { usage: "/slow [seconds]", shows: "a long call, to steer or cancel", tools: ["slow_task"], script: slow },
  steps: {
    usage: "/steps",
    shows: "Steps without end, until the budget is spent",
    tools: ["count_step"],
    script: steps
  },
  loop: {
    usage: "/loop",
    shows: "the same call over and over, until the turn is stopped",
    tools: ["count_step"],
    script: loop
  },
  poll: {
    usage: "/poll [seconds]",
    shows: "the same call over and over with a new result each time, which is no loop",
    tools: ["start_job", "job_status"],
    script: poll
  },
  big: {
    usage: "/big [KiB]",
    shows: "an output of some hundred KiB, of which the model sees the ends",
    tools: OutputScript.bigTools,
    script: OutputScript.big
  },
  huge: {
    usage: "/huge [size]",
    shows: "an output of 1 GiB (or 200MB, …), kept on the disk and searched there",
    tools: OutputScript.hugeTools,
    script: OutputScript.huge
  },
  fail: { usage: "/fail", shows: "a tool that fails and a second try that works", tools: ["unreliable"], script: fail }
} satisfies Record<string, KnownIntent>

const intents: ReadonlyMap<string, KnownIntent> = new Map(Object.entries(intentByWord))

const knownWords: ReadonlySet<string> = new Set(intents.keys())

const decodeTime = Schema.decodeUnknownOption(CurrentTime.successSchema)
const decodeJob = Schema.decodeUnknownOption(StartJob.successSchema)
const decodeStatus = Schema.decodeUnknownOption(JobStatus)
const decodeSlow = Schema.decodeUnknownOption(SlowProgress)
const decodeUnreliable = Schema.decodeUnknownOption(UnreliableTool.successSchema)

const menu = Object.values(intentByWord)
  .map(({ usage, shows }) => `- ${usage}: ${shows}`)
  .join("\n")

const help = (turn: Conversation): Reply => {
  const word = intentOf(turn.text)?.word
  const end = turn.cancelled !== undefined && wasBrokenOff(turn.cancelled) ? "broken off" : "cancelled"
  const before =
    turn.cancelled === undefined ? "" : `The work before was ${end}. ${troubles(turn.cancelled).join(" ")}\n\n`
  const opening =
    word === undefined
      ? `I follow a script and cannot understand "${short(turn.text)}". I really call the tools, though. Try:`
      : `There is no /${word}. There is:`
  return answer(turn, `${before}${opening}\n${menu}`)
}

const wasBrokenOff = (turn: Conversation): boolean =>
  callsOf(turn).some(({ result }) => result?.receipt === "interrupted")

/** The end of a Turn whose tools are switched off: what was done, and no claim beyond (I2). */
const handBack = (turn: Conversation, reason: string): Reply => {
  const calls = callsOf(turn)
  if (calls.length === 0) {
    return answer(turn, `"${short(turn.text)}" needs tools, and this request offers none. Nothing was done.`)
  }
  const names = new Map<string, number>()
  for (const { name } of calls) names.set(name, (names.get(name) ?? 0) + 1)
  const succeeded = calls.filter((call) => trouble(call) === undefined).length
  const failed = calls.filter((call) => call.result?.isFailure === true && call.result.receipt === undefined).length
  const open = calls.length - succeeded - failed
  return answer(
    turn,
    `${reason}, so I hand back. Since "${short(turn.text)}": ${count(turn.batches.length, "step")}, ` +
      `${count(calls.length, "tool call")} (${[...names].map(([name, n]) => `${name} ×${n}`).join(", ")}); ` +
      `${succeeded} succeeded, ${failed} failed, ${open} without a result of their own. ` +
      "I do not claim that the work is finished."
  )
}

const unusable = (turn: Conversation): string =>
  troubles(turn).join(" ") || "The tool answered in a form that this script does not read."
