/**
 * A provider in process: it judges every prompt it is given, then answers as the seed has it.
 *
 * Owns: what a response is made of, and the bill. Does not own: the rules of a prompt (`PromptContract`).
 *
 * - M1. Every prompt keeps the provider contract.
 * - M2. A response that is accepted is never asked for again; under one claim a response is asked for once more only
 *   after a failure, and for the hand-back when the time of the Turn ended while it was asked for.
 * - M3. Now and then it goes in circles: it asks again for what brought nothing new.
 * - M5. A step is asked for a bounded number of times, whatever storage refuses: each fault may cost it one request more.
 * - M4. What the model was asked when its answer was accepted is what the log says it was asked (`Witness.answered`).
 */
import * as TurnPlan from "@turnstep/core/TurnPlan"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Dice } from "./Dice.ts"
import type { Faults } from "./Faults.ts"
import * as PromptContract from "./PromptContract.ts"
import type { SimStore } from "./SimStore.ts"
import * as SimTools from "./SimTools.ts"
import type { Witness } from "./Witness.ts"
import type { Host, World } from "./World.ts"

type Part = Response.StreamPartEncoded

/** What was drawn: parts that arrive one chunk after the other, and how the stream ends. */
interface Script {
  readonly chunks: ReadonlyArray<ReadonlyArray<Part>>
  readonly failure: AiError.AiErrorReason | undefined
  /** Milliseconds before each chunk. */
  readonly pace: number
}

/** The provider, as one process reaches it. */
export const make = (options: {
  readonly world: World
  readonly dice: Dice
  readonly store: SimStore
  readonly faults: Faults
  readonly witness: Witness
  readonly host: Host
}): Effect.Effect<LanguageModel.LanguageModel> => {
  const { dice, faults, host, store, witness, world } = options

  /** Judges a request and returns the key it is billed under (M1, M2). */
  const judge = ({ prompt, toolChoice }: LanguageModel.ProviderOptions): string => {
    const broken = PromptContract.check(prompt.content)
    if (broken !== undefined) witness.violate(`the prompt breaks the contract: ${broken}`)
    const answers = prompt.content.filter((message) => message.role === "assistant").length
    // The question for the hand-back is not in the log, and the system prompt neither.
    const window = prompt.content.slice(1, toolChoice === "none" ? -1 : undefined)
    witness.ask(window)
    const accepted = store.state.window.filter((message) => message.role === "assistant").length
    if (store.isOwner(host) && answers < accepted) {
      witness.violate(`answer ${answers + 1} is asked for, and ${accepted} are accepted (M2)`)
    }
    // When the time ends while the model is asked, it is asked once more: for the hand-back.
    const place = placeOf(prompt.content.length - 1, toolChoice)
    const key = `${store.fenceOf(host)}:${place}`
    const requests = (witness.requests.get(key) ?? 0) + 1
    witness.requests.set(key, requests)
    if (requests > 1 + (witness.failures.get(key) ?? 0)) {
      witness.violate(`answer ${answers + 1} is asked for ${requests} times under one claim (M2)`)
    }
    const step = `step ${place}`
    const inAll = (witness.requests.get(step) ?? 0) + 1
    witness.requests.set(step, inAll)
    // One more is what a second process does not know of the first.
    if (inAll > TurnPlan.maxRefusals + 1 + faults.struck() + (witness.failures.get(step) ?? 0)) {
      witness.violate(`answer ${answers + 1} is asked for ${inAll} times by all owners (M5)`)
    }
    world.note(`${host.name} asks for answer ${answers + 1} (${String(toolChoice)})`)
    return key
  }

  /** Which request of a Turn it is: how long the window was (without the question of a hand-back), and what for. */
  const placeOf = (messages: number, toolChoice: LanguageModel.ProviderOptions["toolChoice"]): string =>
    toolChoice === "none" ? `${messages - 1} hand-back` : `${messages}`

  return LanguageModel.make({
    generateText: () => Effect.die("the engine streams"),
    streamText: (request) =>
      Stream.suspend(() => {
        const key = judge(request)
        const again = lastCall(request.prompt)
        const script =
          again !== undefined && request.toolChoice !== "none" && dice.chance(0.9)
            ? {
                chunks: [[callOf(again, `call_${++witness.callIds}`), finish("tool-calls")]],
                failure: undefined,
                pace: 0
              }
            : draw(dice, request.toolChoice !== "none" || dice.chance(0.1), witness)
        // Counted before it is seen, so that the engine may react at once.
        if (script.failure !== undefined) {
          for (const asked of [key, `step ${placeOf(request.prompt.content.length - 1, request.toolChoice)}`]) {
            witness.failures.set(asked, (witness.failures.get(asked) ?? 0) + 1)
          }
        }
        return play(script)
      })
  })
}

/** The call that a model which goes in circles makes again: one that brings nothing new. */
const lastCall = (prompt: Prompt.Prompt): Prompt.ToolCallPart | undefined => {
  const last = prompt.content.findLast((message) => message.role === "assistant")
  const calls = last?.content.filter((part) => part.type === "tool-call") ?? []
  const [only] = calls
  return calls.length === 1 && isStale(only?.params) ? only : undefined
}

const isStale = Schema.is(Schema.Struct({ n: Schema.Literal(SimTools.stale) }))

const callOf = ({ name, params }: Prompt.ToolCallPart, id: string): Part => ({ type: "tool-call", id, name, params })

const play = ({ chunks, failure, pace }: Script): Stream.Stream<Part, AiError.AiError> => {
  const end = failure === undefined ? Stream.empty : Stream.fail(errorOf(failure))
  if (pace === 0) return Stream.concat(Stream.fromIterable(chunks.flat()), end)
  const paced = Stream.paginate(0, (at: number) =>
    Effect.as(Effect.sleep(pace), [
      chunks[at] ?? [],
      at + 1 < chunks.length ? Option.some(at + 1) : Option.none<number>()
    ] as const)
  )
  return Stream.concat(paced, end)
}

const errorOf = (reason: AiError.AiErrorReason) => AiError.make({ module: "SimModel", method: "streamText", reason })

/** Draws a response. */
const draw = (dice: Dice, mayCall: boolean, witness: Witness): Script => {
  const pace = dice.chance(0.5) ? 0 : dice.between(1, 400)
  const kind = dice.weighted({ answers: 20, calls: mayCall ? 34 : 0, empty: 1, breaks: 5, refuses: 1, ends: 0.7 })
  switch (kind) {
    case "answers":
      return { chunks: [...spoken(dice), [finish("stop")]], failure: undefined, pace }
    case "empty":
      return { chunks: [[finish("stop")]], failure: undefined, pace }
    case "calls": {
      const reason = dice.weighted({ "tool-calls": 20, stop: 1, length: 1.5, "content-filter": 0.5 })
      const before = dice.chance(0.4) ? spoken(dice) : []
      return { chunks: [...before, calls(dice, witness), [finish(reason)]], failure: undefined, pace }
    }
    case "breaks": {
      const sent = dice.chance(0.5) ? [] : dice.chance(0.5) ? spoken(dice) : [...spoken(dice), calls(dice, witness)]
      return { chunks: sent, failure: passing(dice), pace }
    }
    case "refuses":
      return { chunks: [], failure: new AiError.InvalidRequestError({ description: "no" }), pace }
    case "ends":
      return { chunks: spoken(dice), failure: undefined, pace }
  }
}

const passing = (dice: Dice): AiError.AiErrorReason => {
  switch (dice.weighted({ busy: 3, broken: 3, cut: 3, long: 0.5 })) {
    case "busy":
      return new AiError.RateLimitError({ retryAfter: Duration.millis(dice.between(0, 4_000)) })
    case "long":
      return new AiError.RateLimitError({ retryAfter: Duration.minutes(5) })
    case "broken":
      return new AiError.InternalProviderError({ description: "500" })
    case "cut":
      return new AiError.NetworkError({ reason: "TransportError", method: "POST", url: "sim:" })
  }
}

const spoken = (dice: Dice): ReadonlyArray<ReadonlyArray<Part>> => {
  const id = "t"
  const deltas = Array.from({ length: dice.between(1, 3) }, (_, n): Part => ({
    type: "text-delta",
    id,
    delta: `w${n} `
  }))
  return [[{ type: "text-start", id }], ...deltas.map((delta) => [delta]), [{ type: "text-end", id }]]
}

/** One to four calls, as models write them: ids that recur or are illegal, tools that do not exist, bad arguments. */
const calls = (dice: Dice, witness: Witness): ReadonlyArray<Part> =>
  Array.from({ length: Number(dice.weighted({ 1: 4, 2: 3, 3: 2, 4: 1 })) }, (): Part => {
    const id = dice.weighted({ fresh: 16, again: 2, illegal: 1 })
    const fault = dice.weighted({ none: 20, unknown: 1, params: 1, json: 1 })
    const params =
      fault === "params"
        ? { n: "one" }
        : fault === "json"
          ? '{"n": '
          : { n: dice.chance(0.4) ? SimTools.stale : dice.below(SimTools.stale) }
    return {
      type: "tool-call",
      id: id === "again" ? "call_1" : id === "illegal" ? "a b" : `call_${++witness.callIds}`,
      name: fault === "unknown" ? "no such tool" : dice.pick(SimTools.names),
      params
    }
  })

const finish = (reason: Response.FinishReason): Part => ({
  type: "finish",
  reason,
  usage: {
    inputTokens: { total: 10, uncached: 10, cacheRead: 0 },
    outputTokens: { total: 5, text: 5 }
  }
})
