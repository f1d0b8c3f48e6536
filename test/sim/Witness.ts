/**
 * What was seen in a history by those who cannot be made to forget: senders, the provider, the services behind the tools.
 *
 * Owns: these observations and the list of broken promises. Does not own: what is a broken promise at the end
 * (`Invariants`).
 */
import type * as Admission from "@turnstep/core/Admission"
import type { ItemId } from "@turnstep/core/Ids"
import type * as Inbox from "@turnstep/core/Inbox"
import type { EffectClass } from "@turnstep/core/ToolPolicy"
import type * as Prompt from "effect/ai/Prompt"
import * as PromptContract from "./PromptContract.ts"

/** A message whose sender was told that it is admitted. */
export interface Acknowledged {
  readonly text: string
  readonly admission: Inbox.Admission
}

/** What the service behind a tool knows of one call key. */
export interface ToolRuns {
  readonly effects: EffectClass
  /** Times its handler was started. */
  starts: number
  /** Who got its last answer, under which fence, when, and whether the tool had committed it (`ToolCall.commit`). */
  finished:
    | { readonly host: string; readonly fence: number; readonly at: number; readonly isCommitted: boolean }
    | undefined
}

export interface Witness {
  readonly violations: Array<string>
  readonly acknowledged: Array<Acknowledged>
  /** Items whose senders were told that they are withdrawn. */
  readonly withdrawn: Set<ItemId>
  readonly cancellations: Array<Admission.Cancellation>
  /** Texts of messages sent by a `run` that was given up, each with the last event when the giving up had ended. */
  readonly abandoned: Array<{ readonly text: string; readonly seq: number }>
  /** Processes that were stopped for a while: what they had at hand may be late. */
  readonly stopped: Set<string>
  /** By call key and effect class. */
  readonly toolRuns: Map<string, ToolRuns>
  /** Requests and failures of the provider, by claim and length of the window, which grows with every step. */
  readonly requests: Map<string, number>
  readonly failures: Map<string, number>
  /** Call ids the provider has given out. */
  callIds: number
  /** The provider is asked for the answer to a window. */
  readonly ask: (window: ReadonlyArray<Prompt.Message>) => void
  /** An answer is about to follow this window in the log: the provider must have been asked that. */
  readonly answered: (window: ReadonlyArray<Prompt.Message>) => void
  /** A promise was broken. */
  readonly violate: (what: string) => void
}

export const make = (note: (what: string) => void): Witness => {
  const violations: Array<string> = []
  const asked = new Set<string>()
  const violate = (what: string) => {
    violations.push(what)
    note(`VIOLATION ${what}`)
  }
  const textOf = (messages: ReadonlyArray<Prompt.Message>) => messages.map(PromptContract.text).join("\n")
  return {
    violations,
    acknowledged: [],
    withdrawn: new Set(),
    cancellations: [],
    abandoned: [],
    stopped: new Set(),
    toolRuns: new Map(),
    requests: new Map(),
    failures: new Map(),
    callIds: 0,
    ask: (window) => void asked.add(textOf(window)),
    answered: (window) => {
      if (!asked.has(textOf(window))) violate(`an answer was accepted for a prompt that is not the log's`)
    },
    violate
  }
}
