/**
 * Reading a session as it happens: the record first, then what is heard, without a gap and without a duplicate.
 *
 * Owns: the join of journal and hub, and the questions that are answered by watching. Does not own: either of them.
 *
 * - W1. Every event after the starting point is seen once, in order: a gap in what is heard is read from the journal.
 * - W2. The stream ends when the listener fell too far behind or the hub closed; it can be taken up again after the last event.
 * - W3. Nothing is shown of an answer or a call that the events seen before say is over.
 */
import * as Ids from "@turnstep/core/Ids"
import type { Journal } from "@turnstep/core/Journal"
import { ItemSettled, RuntimeClosed, TurnFailed } from "@turnstep/core/TurnError"
import * as Transcript from "@turnstep/core/Transcript"
import * as TurnEvent from "@turnstep/core/TurnEvent"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Ear, EventHub, Heard, Partial } from "./EventHub.ts"
import * as PageReads from "./PageReads.ts"
import type { Seen, TurnOutcome } from "./Session.ts"

interface Position {
  readonly last: number
  readonly isLive: boolean
}

/**
 * Reads on from a sequence number, page by page: each page is at most twice as long as what the one before could take, so
 * that storage does not measure hundreds of large events to give one of them.
 */
const pages = (reads: PageReads.PageReads, sessionId: Ids.SessionId) => {
  let limit = 16
  return Effect.fnUntraced(function* (after: number) {
    const events = yield* reads.read(sessionId, after, limit)
    const isLast = !PageReads.isFull(events, limit)
    const isCounted = events.length === limit
    limit = Math.min(PageReads.mostEvents, isCounted ? 2 * limit : Math.max(1, 2 * events.length))
    if (isLast) limit = PageReads.mostEvents
    return { events, isLast }
  })
}

/** Everything after a sequence number (W1, W2). */
export const stream = (
  reads: PageReads.PageReads,
  hub: EventHub["Service"],
  sessionId: Ids.SessionId,
  after: number
): Stream.Stream<Seen> =>
  Stream.unwrap(
    Effect.map(hub.listen(sessionId), ({ heard, partial }) => {
      let snapshot = partial
      /** What was heard, and waits until what came before it is read. */
      let heardBefore: ReadonlyArray<Heard> = []
      const over = makeOver()
      const read = pages(reads, sessionId)
      const show = (events: ReadonlyArray<TurnEvent.TurnEvent>): ReadonlyArray<Seen> => {
        events.forEach(over.note)
        return events.map((event): Seen => ({ _tag: "Event", event }))
      }
      const page = Effect.fnUntraced(function* (position: Position) {
        if (position.isLive) return yield* live(position.last)
        const { events, isLast: isLive } = yield* read(position.last)
        const last = events.at(-1)?.seq ?? position.last
        const seen = [...show(events)]
        if (snapshot !== undefined && over.isAnswered(snapshot)) snapshot = undefined
        if (isLive && snapshot !== undefined) seen.push({ _tag: "Snapshot", snapshot })
        return [seen, Option.some({ last, isLive })] as const
      })
      const live = Effect.fnUntraced(function* (from: number) {
        const news = heardBefore.length > 0 ? Option.some(heardBefore) : yield* Effect.option(heard)
        if (Option.isNone(news)) return [[] as ReadonlyArray<Seen>, Option.none<Position>()] as const
        heardBefore = []
        const seen: Array<Seen> = []
        let last = from
        let hasLooked = false
        for (const [index, item] of news.value.entries()) {
          if ("ephemeral" in item) {
            const { ephemeral } = item
            if (over.isOver(ephemeral) || isInSnapshot(ephemeral, snapshot)) continue
            if (ephemeral.type === "step.reset") snapshot = undefined
            seen.push({ _tag: "Ephemeral", ephemeral })
            continue
          }
          if ("event" in item ? item.event.seq <= last : hasLooked) continue
          hasLooked ||= "look" in item
          const isNext = "event" in item && item.event.seq === last + 1
          const missed = isNext ? { events: [item.event], isLast: true } : yield* read(last)
          seen.push(...show(missed.events))
          last = missed.events.at(-1)?.seq ?? last
          if (missed.isLast) continue
          heardBefore = news.value.slice(index) // There may be more of it.
          break
        }
        return [seen as ReadonlyArray<Seen>, Option.some<Position>({ last, isLive: true })] as const
      })
      return Stream.paginate<Position, Seen>({ last: after, isLive: false }, page)
    })
  )

/** How one event of a session is waited for. `isOver` once the runtime is closing and nothing more will be heard. */
export interface Watcher {
  readonly sessionId: Ids.SessionId
  /** The next recorded events after a sequence number. */
  readonly read: (after: number) => Effect.Effect<ReadonlyArray<TurnEvent.TurnEvent>>
  readonly overhear: (ear: Ear) => Effect.Effect<void, never, Scope.Scope>
  readonly isOver: () => boolean
}

/** The watcher of a session. */
export const watcher = (journal: Journal["Service"], hub: EventHub["Service"], sessionId: Ids.SessionId): Watcher => ({
  sessionId,
  read: (after) => journal.read(sessionId, { after, limit: PageReads.mostEvents, bytes: PageReads.pageBytes }),
  overhear: (ear) => hub.overhear(sessionId, ear),
  isOver: hub.isClosed
})

/** The Turn an item starts, or joins if it was moved to the running one; a message that was taken back starts none. */
export const startOf = (
  watcher: Watcher,
  after: number,
  itemId: Ids.ItemId
): Effect.Effect<Ids.TurnId, RuntimeClosed | ItemSettled> =>
  Effect.flatMap(
    first(watcher, after, (event) => fateOf(event, itemId)),
    (turnId) =>
      Effect.fromOption(turnId, () => new ItemSettled({ sessionId: watcher.sessionId, itemId, state: "returned" }))
  )

/** How the Turn ends that an item starts or joins. */
export const outcomeOfItem = (
  watcher: Watcher,
  after: number,
  itemId: Ids.ItemId
): Effect.Effect<TurnOutcome, RuntimeClosed | ItemSettled | TurnFailed> =>
  Effect.suspend(() => {
    let ended: ReturnType<typeof endOf> | undefined
    const found = first(
      watcher,
      after,
      (event): Option.Option<Effect.Effect<TurnOutcome, ItemSettled | TurnFailed>> => {
        if (ended !== undefined) return ended(event)
        const fate = fateOf(event, itemId)
        if (Option.isNone(fate)) return Option.none()
        if (Option.isNone(fate.value))
          return Option.some(Effect.fail(new ItemSettled({ sessionId: watcher.sessionId, itemId, state: "returned" })))
        ended = endOf(watcher.sessionId, fate.value.value)
        return Option.none()
      }
    )
    return Effect.flatten(found)
  })

/** What an event says of an item: the Turn it was applied to, or that there is none because it was returned. */
const fateOf = (event: TurnEvent.TurnEvent, itemId: Ids.ItemId): Option.Option<Option.Option<Ids.TurnId>> => {
  if (event.type === "inbox.applied" && event.data.itemId === itemId) return Option.some(Option.some(event.data.turnId))
  const isBack = event.type === "inbox.returned" && event.data.disposition === "returned"
  return isBack && event.data.itemId === itemId ? Option.some(Option.none()) : Option.none()
}

/** How a Turn ends; `after` is before its last message. */
export const outcome = (
  watcher: Watcher,
  after: number,
  turnId: Ids.TurnId
): Effect.Effect<TurnOutcome, RuntimeClosed | TurnFailed> =>
  Effect.suspend(() => Effect.flatten(first(watcher, after, endOf(watcher.sessionId, turnId))))

/** How a Turn ends that was not started at `after`; none when a message is gone from the inbox that could have started it. */
export const outcomeOfNext = (
  watcher: Watcher,
  after: number,
  turnId: Ids.TurnId
): Effect.Effect<Option.Option<TurnOutcome>, RuntimeClosed | TurnFailed> =>
  Effect.suspend(() => {
    const ended = endOf(watcher.sessionId, turnId)
    let isStarted = false
    const found = first(
      watcher,
      after,
      (event): Option.Option<Effect.Effect<Option.Option<TurnOutcome>, TurnFailed>> => {
        isStarted ||= event.type === "turn.started" && event.data.turnId === turnId
        const isGone = event.type === "inbox.applied" || event.type === "inbox.returned"
        return isGone && !isStarted ? Option.some(Effect.succeedNone) : Option.map(ended(event), Effect.asSome)
      }
    )
    return Effect.flatten(found)
  })

/** The question how a Turn ends, put to its events in their order. */
const endOf = (sessionId: Ids.SessionId, turnId: Ids.TurnId) => {
  let parts: Parameters<typeof Transcript.textOf>[0] = []
  return (event: TurnEvent.TurnEvent): Option.Option<Effect.Effect<TurnOutcome, TurnFailed>> => {
    if (event.type === "message.added" && event.data.role === "assistant") parts = event.data.parts
    return TurnEvent.isTerminal(event) && event.data.turnId === turnId
      ? Option.some(outcomeOf(event, sessionId, Transcript.textOf(parts)))
      : Option.none()
  }
}

const outcomeOf = (
  event: TurnEvent.Terminal,
  sessionId: Ids.SessionId,
  text: string
): Effect.Effect<TurnOutcome, TurnFailed> => {
  const { cost, steps, turnId, usage } = event.data
  const spent = { steps, usage, ...(cost === undefined ? undefined : { cost }) }
  switch (event.type) {
    case "turn.completed":
      return Effect.succeed({ _tag: "Answered", turnId, text, finishReason: event.data.finishReason, ...spent })
    case "turn.exhausted":
      return Effect.succeed({ _tag: "BudgetSpent", turnId, limit: event.data.limit, text, ...spent })
    case "turn.tripped": {
      const { code, reason } = event.data
      return Effect.succeed({ _tag: "Tripped", turnId, code, reason, text, ...spent })
    }
    case "turn.cancelled":
      return Effect.succeed({ _tag: "Cancelled", turnId, by: event.data.by, reason: event.data.reason })
    case "turn.failed":
      return Effect.fail(new TurnFailed({ sessionId, turnId, error: event.data.error }))
  }
}

/**
 * The first event that answers a question (W1). Events that follow on the last one are looked at where they are published,
 * and only the answer wakes the fiber: a Turn is not slowed by who waits for its end.
 */
const first = Effect.fnUntraced(function* <A>(
  watcher: Watcher,
  after: number,
  pick: (event: TurnEvent.TurnEvent) => Option.Option<A>
) {
  let last = after
  let found = Option.none<A>()
  const answer = (): Option.Option<A> => found
  /** Whether the journal was read up to what is being published, and whether anything was published while it was read. */
  let isLive = false
  let isMissing = false
  const bell = Latch.makeUnsafe(false)
  /** Takes the events that follow on the last one, up to the answer. False when there is a gap. */
  const take = (events: ReadonlyArray<TurnEvent.TurnEvent>): boolean => {
    for (const event of events) {
      if (event.seq <= last) continue
      if (event.seq > last + 1) return false
      last = event.seq
      found = pick(event)
      if (Option.isSome(found)) return true
    }
    return true
  }
  yield* watcher.overhear((news) => {
    isMissing = true
    if (!isLive || Option.isSome(found)) return
    isLive = news !== "look" && take(news)
    if (!isLive || Option.isSome(found)) bell.openUnsafe()
  })
  for (;;) {
    if (watcher.isOver()) return yield* new RuntimeClosed({ sessionId: watcher.sessionId })
    isMissing = false
    const events = yield* watcher.read(last)
    take(events)
    if (Option.isNone(answer()) && !PageReads.isFull(events, PageReads.mostEvents) && !isMissing) {
      isLive = true
      yield* bell.await
      yield* Effect.yieldNow // out of the publisher's stack
      bell.closeUnsafe()
      isLive = false
    }
    const done = answer()
    if (Option.isSome(done)) return done.value
  }
}, Effect.scoped)

/** What the events seen so far have made void (W3): who reads the record while listening hears of things that are over. */
const makeOver = () => {
  /** The step that was requested last, as far as is known, and whether its answer was seen. */
  let turn = 0
  let step = 0
  let isAnswered = false
  const compare = (otherTurn: number, otherStep: number): number => otherTurn - turn || otherStep - step
  const answered = (place: { readonly turnId: Ids.TurnId; readonly step: number }): boolean => {
    const order = compare(Ids.numberOf(place.turnId), place.step)
    return order < 0 || (order === 0 && isAnswered)
  }
  return {
    note: (event: TurnEvent.TurnEvent): void => {
      if (event.type === "message.added" && event.data.role === "assistant") isAnswered = true
      else if (event.type === "step.started") {
        turn = Ids.numberOf(event.data.turnId)
        step = event.data.step
        isAnswered = false
      } else if (TurnEvent.isTerminal(event)) {
        turn = Ids.numberOf(event.data.turnId) + 1
        step = 0
      }
    },
    isAnswered: answered,
    isOver: (ephemeral: TurnEvent.Ephemeral): boolean => {
      if (ephemeral.type !== "call.progress") return answered(ephemeral)
      const place = Ids.placeOf(ephemeral.callId)
      return compare(place.turn, place.step) < 0
    }
  }
}

/** Whether a delta that was on its way when the watching began is part of the snapshot. */
const isInSnapshot = (ephemeral: TurnEvent.Ephemeral, snapshot: Partial | undefined): boolean => {
  if (snapshot === undefined || ephemeral.type !== "delta") return false
  if (ephemeral.turnId !== snapshot.turnId || ephemeral.step !== snapshot.step) return false
  return ephemeral.offset + ephemeral.delta.length <= snapshot[ephemeral.channel].length
}
