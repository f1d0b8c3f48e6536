/**
 * The guards that a promise rests on, each with the change that takes it away and the suites that must notice.
 *
 * Owns: the list. Does not own: how a mutant is made and tried (`Copy`, `Trial`).
 */

export interface Mutant {
  /** Names it on the command line. */
  readonly name: string
  /** What the program then does. */
  readonly does: string
  readonly file: string
  /** Stands in the file exactly once. */
  readonly find: string
  readonly put: string
  /** The smallest suites that must notice. */
  readonly suites: ReadonlyArray<string>
}

const contract = "test/contract/Storage.test.ts"
const engine = "test/runtime/Memory.test.ts"
const model = "test/property/TurnModel.test.ts"
const liveness = "test/sim/Liveness.test.ts"
const plan = "packages/core/src/TurnPlan.ts"
const mcp = "test/runtime/mcp/Faults.test.ts"
const append = "packages/runtime/src/sql/schema/Append.ts"
const drivers = "packages/runtime/src/Drivers.ts"
const driving = "test/runtime/Drivers.test.ts"
const outage = "test/runtime/Outage.test.ts"
const refused = "test/runtime/WriteRefused.test.ts"

export const mutants: ReadonlyArray<Mutant> = [
  // Sizes and keys
  {
    name: "unread-fact",
    does: "a fact that could not be read again is written",
    file: "packages/runtime/src/sql/FactText.ts",
    find: "if (bytes > mostBytes) throw",
    put: "if (bytes > Infinity) throw",
    suites: ["test/sql/AppendBatch.test.ts"]
  },
  {
    name: "asked-for-nothing",
    does: "the model is asked again after a fact that is refused whenever it is written",
    file: "packages/runtime/src/Turn.ts",
    find: "refusal?.isFinal === true || ",
    put: "",
    suites: [refused]
  },
  {
    name: "forgotten-key",
    does: "a session that was created under a key, with an id and without a message, is not found by asking again",
    file: "packages/server/src/http/SessionHandlers.ts",
    find: "clientKey !== key && ",
    put: "",
    suites: ["test/server/Sessions.test.ts"]
  },
  // Readers who do not read
  {
    name: "unbounded-readers",
    does: "what waits for all slow readers together has no bound",
    file: "packages/server/src/http/Outflow.ts",
    find: "if (waiting <= budget || stalled.size === 1) return",
    put: "if (waiting <= Infinity) return",
    suites: ["test/server/Outflow.test.ts"]
  },
  {
    name: "large-text",
    does: "a reader of a text above the bound is hung up on each time",
    file: "packages/server/src/http/Outflow.ts",
    find: "if (waiting <= budget || stalled.size === 1) return",
    put: "if (waiting <= budget) return",
    suites: ["test/server/Outflow.test.ts"]
  },
  {
    name: "torn-text",
    does: "a stream that is ended in the midst of an event leaves half of it behind",
    file: "packages/server/src/http/Outflow.ts",
    find: "if (!isGiven() && !response.destroyed)",
    put: "if (isGiven() && !response.destroyed)",
    suites: ["test/server/Outflow.test.ts"]
  },
  {
    name: "free-cost",
    does: "a limit of cost without a price is taken, and never reached",
    file: "packages/server/src/Config.ts",
    find: "config.maxCost.value !== undefined && config.price.value === undefined",
    put: "config.maxCost.value === undefined && config.price.value === undefined && config.adopt.value",
    suites: ["test/server/Config.test.ts"]
  },
  // The shape of parts
  {
    name: "nameless-response",
    does: "a Gemini response under another name is thrown away",
    file: "packages/core/src/history/Pairing.ts",
    find: "form.isByName ? fillByName(batch, unknown) : ",
    put: "form.isByName ? unknown : ",
    suites: ["test/core/history/Corpus.test.ts"]
  },
  // Content that a model refuses
  {
    name: "unread-file",
    does: "a file that no model can read is admitted",
    file: "packages/core/src/Admission.ts",
    find: "if (faults.length > 0)",
    put: "if (faults.length < 0)",
    suites: ["test/server/Problem.test.ts"]
  },
  {
    name: "poisoned-session",
    does: "a refused image is sent again with every request",
    file: "packages/runtime/src/Step.ts",
    find: "SetAside.windowFor(owner.state.setAside, config.modelName, owner.state.window)",
    put: "owner.state.window",
    suites: [engine]
  },
  {
    name: "answered-aside",
    does: "files that the model has answered are set aside with the new ones",
    file: "packages/core/src/SetAside.ts",
    find: "ofModel(state, model).answered = state.messages",
    put: "ofModel(state, model).answered = 0",
    suites: ["test/core/SetAside.test.ts"]
  },
  // The runtime in an application
  {
    name: "inside-transaction",
    does: "a session that is used inside a transaction of the application is part of it",
    file: "packages/runtime/src/sql/Outside.ts",
    find: "Effect.updateContext(work, Context.omit(sql.transactionService))",
    put: "work",
    suites: ["test/runtime/Transactions.test.ts"]
  },
  {
    name: "stop-cancels",
    does: "a main program that is told to stop cancels the Turn it waits for",
    file: "packages/runtime/src/FrontDoor.ts",
    find: "by.has(id)",
    put: "by.size < 0",
    suites: ["test/runtime/RunMain.test.ts"]
  },
  {
    name: "one-runtime",
    does: "two runtimes of one application are one, on the store that was built first",
    file: "packages/runtime/src/Runtime.ts",
    find: "Layer.suspend(() => Layer.fresh(layer))",
    put: "layer",
    suites: ["test/runtime/Runtime.test.ts"]
  },
  // The workers of a process
  {
    name: "hoarded-sessions",
    does: "a process claims whatever waits, however few workers it has",
    file: drivers,
    find: "  process.busy++\n  return { isHeld: true }",
    put: "  return { isHeld: false }",
    suites: [driving]
  },
  {
    name: "ring-storm",
    does: "a sweep rings for what finds no worker, and every ring is a sweep",
    file: drivers,
    find: "const hasRoom = () => !isClosing && !isFull(process)",
    put: "const hasRoom = () => !isClosing",
    suites: [driving]
  },
  {
    name: "unheard-worker",
    does: "what found no worker waits for the sweep, whoever is free before it",
    file: drivers,
    find: "process.isShort = true\n        return",
    put: "return",
    suites: [driving]
  },
  {
    name: "crowded-out",
    does: "a session that is held waits for a worker here, whatever others have",
    file: drivers,
    find: "isCrowdedOut = !place.isHeld && isFull(process)",
    put: "isCrowdedOut = false",
    suites: [driving]
  },
  {
    name: "borrowed-context",
    does: "a driver runs in the context of the caller who woke it",
    file: drivers,
    find: "Effect.updateContext(work, () => context)",
    put: "Effect.provideContext(work, context)",
    suites: [driving]
  },
  {
    name: "stranger-claims",
    does: "a message admitted here is run here, whether its agent is known or not",
    file: drivers,
    find: "if (!agents.includes(agent)) {",
    put: "if (agents.length < 0) {",
    suites: [driving]
  },
  // Storage that fails
  {
    name: "deaf-driver",
    does: "a driver whose read failed hears nothing any more",
    file: drivers,
    find: "        Effect.andThen(Effect.sleep(listenAgain)),\n        Effect.as(false)",
    put: "        Effect.andThen(Effect.never)",
    suites: [outage]
  },
  {
    name: "unwoken-loop",
    does: "a listener that heard something does not wake its driver",
    file: drivers,
    find: "Effect.tap((isNew) => (isNew ? changed.open : Effect.void))",
    put: "Effect.tap(() => Effect.void)",
    suites: [outage]
  },
  {
    name: "dropped-results",
    does: "results that are not recorded when a Turn goes on elsewhere are dropped",
    file: "packages/runtime/src/Turn.ts",
    find: "if (ending === undefined) return owner.salvage(results)",
    put: "if (ending === undefined) return Effect.void",
    suites: [outage]
  },
  {
    name: "empty-salvage",
    does: "results that could not be written as decided are not written by themselves",
    file: "packages/runtime/src/Owner.ts",
    find: "yield* Effect.forEach(kept, save, { discard: true })",
    put: "kept = []",
    suites: [outage]
  },
  {
    name: "forgotten-results",
    does: "results that storage did not take are lost with their owner",
    file: "packages/runtime/src/Owner.ts",
    find: "  let kept = left.results",
    put: '  let kept: Legacy["results"] = []',
    suites: [outage]
  },
  {
    name: "deaf-owner",
    does: "an owner that waits for the results of its calls after a refused write hears no cancel",
    file: "packages/runtime/src/Owner.ts",
    find: "if (told.length > 0) stopping.openUnsafe()",
    put: "void told",
    suites: [outage]
  },
  {
    name: "lapsed-lease",
    does: "an owner whose lease ran out asks the model",
    file: "packages/runtime/src/Turn.ts",
    find: 'if (turn.step?.state === "requested") yield* owner.confirm',
    put: "",
    suites: [outage]
  },
  {
    name: "late-end",
    does: "a session is let go of while a tool that was left behind in it may still end",
    file: drivers,
    find: "if (!owner.isWaited() || ++idleFor >= mostIdle) return",
    put: "if (idleFor >= 0) return",
    suites: [outage]
  },
  {
    name: "endless-release",
    does: "a Turn waits without end for what was made for it to be released",
    file: "packages/runtime/src/Turn.ts",
    find: "Effect.timeoutOption(Effect.interruptible(Fiber.await(releasing)), releaseGrace)",
    put: "Effect.asSome(Fiber.await(releasing))",
    suites: ["test/runtime/Hanging.test.ts"]
  },
  {
    name: "unpaid-beginning",
    does: "a driver whose writes are refused is no failure: it begins again at once",
    file: drivers,
    find: 'if (left === "refused") yield* remember(failing, sessionId, legacy)',
    put: 'if (left === "refused") failing.delete(sessionId)',
    suites: [refused]
  },
  {
    name: "endless-bill",
    does: "a step whose response is refused is asked for again for ever",
    file: "packages/core/src/TurnPlan.ts",
    find: "export const maxRefusals = 3",
    put: "export const maxRefusals = 1000",
    suites: [refused]
  },
  {
    name: "step-after-stop",
    does: "a Turn that has been told to stop is taken a step further by a write that was on its way",
    file: "packages/runtime/src/Owner.ts",
    find: 'event.type === "turn.cancelling" && !facts.every(isResult)',
    put: 'event.type === "turn.cancelling" && facts.length < 0',
    suites: [engine]
  },
  {
    name: "sticky-takeovers",
    does: "owners that died before a response was accepted still count after it",
    file: "packages/core/src/SessionState.ts",
    find: "  turn.takeovers = 0\n  turn.refusals = 0",
    put: "  turn.refusals = 0",
    suites: ["test/core/SessionState.test.ts"]
  },
  // The guards of a Turn
  {
    name: "breaker-trips",
    does: "a Turn may repeat itself for ever",
    file: "packages/core/src/Breaker.ts",
    find: "run >= needed(period, limit, isLook, rounds)",
    put: "false",
    suites: ["test/core/Breaker.test.ts"]
  },
  {
    name: "third-write",
    does: "a write of a loop of several writes runs a third time",
    file: "packages/core/src/Breaker.ts",
    find: "return hasLook ? ",
    put: "return period > 1 ? ",
    suites: ["test/core/Breaker.test.ts"]
  },
  {
    name: "breaker-results",
    does: "rounds are the same when they ask for the same, whatever the results",
    file: "packages/core/src/Breaker.ts",
    find: " && resultsOf(before) === resultsOf(round)",
    put: "",
    suites: ["test/core/BreakerCorpus.test.ts"]
  },
  {
    name: "failure-budget",
    does: "tools at the user's are called however often they failed",
    file: "packages/core/src/FailureBudget.ts",
    find: "?? 0) >= limit",
    put: "?? 0) >= Infinity",
    suites: ["test/core/FailureBudget.test.ts"]
  },
  {
    name: "batch-allowance",
    does: "a batch is shown to the model whole, however large it is",
    file: "packages/core/src/ToolOutput.ts",
    find: "if (results.length < 2 ||",
    put: "if (results.length > 0 ||",
    suites: ["test/core/ToolOutput.test.ts"]
  },
  {
    name: "reserve",
    does: "a Turn whose time is over waits for the words of its model for ever",
    file: "packages/runtime/src/Turn.ts",
    find: "(isTimed ? Effect.timeoutOption(asked, reserve) : Effect.asSome(asked))",
    put: "Effect.asSome(asked)",
    suites: ["test/runtime/Reserve.test.ts"]
  },
  // What nobody may run unasked, and what a stopped tool leaves
  {
    name: "unasked",
    does: "a tool that needs an approval runs without one",
    file: "packages/core/src/Consent.ts",
    find: "if (needsApproval === false || (needsApproval !== true && isFree)) return undefined",
    put: "return undefined",
    suites: ["test/core/TurnPlan.test.ts"]
  },
  {
    name: "unasked-rule",
    does: "a rule for approvals that fails is taken for a no",
    file: "packages/runtime/src/Approval.ts",
    find: "return exit.value.value === false ? [callId] : []",
    put: "return exit.value.value === false ? [callId] : []\n      if (Option.isSome(exit)) return [callId]",
    suites: [engine]
  },
  {
    name: "unasked-again",
    does: "the next owner runs what must be approved by now",
    file: "packages/core/src/Ledger.ts",
    find: "const refusal = refusalOf(call)",
    put: "const refusal = undefined",
    suites: ["test/core/Ledger.test.ts"]
  },
  {
    name: "early-starts",
    does: "calls that wait for their key are recorded as started",
    file: "packages/core/src/Start.ts",
    find: "if (isHeld || free <= 0) return []",
    put: "if (free <= 0) return []",
    suites: [engine]
  },
  {
    name: "last-words",
    does: "what a tool committed while its Turn was stopped is lost",
    file: "packages/runtime/src/Step.ts",
    find: "Effect.sync(() => void unrecorded.push(...answer))",
    put: "Effect.void",
    suites: [engine]
  },
  {
    name: "last-minute",
    does: "what a tool committed in its grace is called unknown",
    file: "packages/runtime/src/ToolStop.ts",
    find: "return committed === undefined ? Option.none() : Option.some(Exit.succeed(committed))",
    put: "return Option.none()",
    suites: [engine]
  },
  {
    name: "late-answer",
    does: "what a tool committed after it was left behind is told to nobody",
    file: "packages/runtime/src/ToolRun.ts",
    find: "if (isStopped && committed === undefined) return",
    put: "if (isStopped) return",
    suites: [engine]
  },
  {
    name: "salvage",
    does: "results that are there when the process lets go are not recorded",
    file: "packages/runtime/src/Turn.ts",
    find: "if (ending === undefined) return owner.salvage(results)",
    put: "if (ending === undefined) return Effect.void",
    suites: [engine]
  },
  {
    name: "settle-drops",
    does: "results that are there when a Turn is stopped are not recorded",
    file: "packages/runtime/src/Turn.ts",
    find: "owner.decide(() => results),",
    put: "Effect.void,",
    suites: [engine]
  },
  {
    name: "left-behind-key",
    does: "the work of a tool that did not stop is done a second time beside it",
    file: "packages/runtime/src/CallRoom.ts",
    find: "if (!isAlike && (key === undefined || key !== held)) continue",
    put: "continue",
    suites: [engine]
  },
  // The gate in front of the model
  {
    name: "gate-repair",
    does: "a request that breaks its provider's contract leaves as it is",
    file: "packages/core/src/history/RequestGate.ts",
    find: "const sent = restored(name, all, forms, messages)",
    put: "const sent = all",
    suites: ["test/core/history/RequestGate.test.ts"]
  },
  {
    name: "gate-ids",
    does: "the gate forgets which call ids it has seen",
    file: "packages/core/src/history/RequestGate.ts",
    find: "ids.some((id) => before.ids.has(id))",
    put: "false",
    suites: ["test/core/history/RequestGate.test.ts"]
  },
  // The fence
  {
    name: "memory-halves",
    does: "the store in memory keeps what comes before an illegal fact of a write",
    file: "packages/core/src/MemoryStore.ts",
    find: "    entry.state = SessionState.make(entry.sessionId, { keepsWindow: false })\n    for (const event of entry.events)",
    put: "    for (const event of entry.events.slice(entry.state.seq))",
    suites: [contract]
  },
  {
    name: "fence-memory",
    does: "the store in memory takes writes under a stale fence",
    file: "packages/core/src/MemoryStore.ts",
    find: "entry === undefined || entry.fence !== write.fence",
    put: "entry === undefined",
    suites: [contract]
  },
  {
    name: "fence-sql",
    does: "the gate takes writes under a stale fence",
    file: append,
    find: "(s.fence = w.fence and s.last_txn is distinct from w.txn)",
    put: "s.last_txn is distinct from w.txn",
    suites: [contract]
  },
  {
    name: "fence-guard",
    does: "the database takes rows under a stale fence from whoever writes past the gate",
    file: "packages/runtime/src/sql/schema/Guards.ts",
    find: "s.fence <> new.fence or s.xmin",
    put: "s.xmin",
    suites: ["test/sql/IllegalWrites.test.ts"]
  },
  {
    name: "claim-of-the-living",
    does: "a session is taken from an owner whose lease lasts",
    file: "packages/runtime/src/sql/SqlClaim.ts",
    find: "r.incarnation = f.owner and r.lease_until > clock_timestamp()))",
    put: "r.incarnation = f.owner and false))",
    suites: ["test/sql/SqlClaim.test.ts"]
  },
  {
    name: "claim-same-fence",
    does: "a claim leaves the fence of the claim before",
    file: "packages/runtime/src/sql/SqlClaim.ts",
    find: "set fence = s.fence + 1, owner",
    put: "set fence = s.fence, owner",
    suites: [contract]
  },
  {
    name: "foreign-followed",
    does: "an owner that was overtaken goes on with what the new one writes",
    file: "packages/runtime/src/Owner.ts",
    find: "if (!events.every(isFromOutside)) return",
    put: "if (false) return",
    suites: [liveness]
  },
  // Dense numbers
  {
    name: "seq-memory",
    does: "the store in memory takes a decision that others' writes have overtaken",
    file: "packages/core/src/MemoryStore.ts",
    find: "if (write.expectedSeq !== undefined && write.expectedSeq !== entry.state.seq) {",
    put: "if (write.expectedSeq !== undefined && write.expectedSeq > entry.state.seq) {",
    suites: [contract]
  },
  {
    name: "seq-sql",
    does: "the gate takes a decision that others' writes have overtaken",
    file: append,
    find: "and (w.expected is null or s.next_seq = w.expected + 1)",
    put: "and (w.expected is null or s.next_seq > w.expected)",
    suites: [contract]
  },
  // A lost answer to COMMIT
  {
    name: "last-txn",
    does: "a fenced write that is sent again after a lost answer is not known",
    file: append,
    find: "when s.fence = r.fence and s.last_txn = r.txn then s.last_txn_seq",
    put: "when false then s.last_txn_seq",
    suites: ["test/sql/LostAnswer.test.ts"]
  },
  {
    name: "admission-txn",
    does: "an admission that is sent again after a lost answer is not known",
    file: append,
    find: "where i.session_no = s.session_no and i.txn = r.txn limit 1",
    put: "where false limit 1",
    suites: ["test/sql/LostAnswer.test.ts"]
  },
  // What tools may have done
  {
    name: "once-again",
    does: "the next owner runs a once-only tool a second time",
    file: "packages/core/src/Ledger.ts",
    find: "mayRunAgain(effects) && refusal === undefined",
    put: "refusal === undefined",
    suites: [model]
  },
  {
    name: "once-schema",
    does: "the database takes a second attempt of a once-only call",
    file: "packages/runtime/src/sql/schema/Guards.ts",
    find: "when c.effects = 'once' and new.attempt > 1 then 'it must never run twice'",
    put: "",
    suites: ["test/sql/IllegalWrites.test.ts"]
  },
  {
    name: "effects-before-the-record",
    does: "a call with effects starts before its response is recorded",
    file: "packages/runtime/src/Step.ts",
    find: 'call.effects === "pure" ? placed : Effect.andThen(written, placed)',
    put: "placed",
    suites: [engine]
  },
  {
    name: "receipt-of-effects",
    does: "a receipt says of a call with effects that it changed nothing",
    file: "packages/core/src/Receipt.ts",
    find: 'if (progress.effects !== "pure") return "outcome-unknown"',
    put: "",
    suites: [engine]
  },
  // The end of a Turn
  {
    name: "receipts",
    does: "the finalizer leaves open calls without a receipt",
    file: plan,
    find: "before.length > 0 ? [] : Ledger.receipts(turn.ledger, causeOf(ending))",
    put: "before.length > 0 ? [] : Ledger.receipts(turn.ledger, causeOf(ending)).slice(1)",
    suites: [engine]
  },
  {
    name: "detach",
    does: "a host that lets go settles the Turn instead",
    file: "packages/runtime/src/Turn.ts",
    find: "return owner.isLettingGo() ? undefined : {",
    put: "return {",
    suites: [engine]
  },
  {
    name: "cancel-overtaken",
    does: "a Turn that was told to stop ends as whatever it was about to",
    file: "packages/runtime/src/Turn.ts",
    find: "cancelledOf(state.turn) ?? ending)",
    put: "ending)",
    suites: [liveness]
  },
  {
    name: "crash-loop",
    does: "a Turn that kills its processes is taken up again and again",
    file: plan,
    find: "if (wasLeft && turn.takeovers >= (ranAgain ? maxTakeoversOfCall : maxTakeovers)) return undefined",
    put: "",
    suites: ["test/runtime/CrashLoop.test.ts"]
  },
  // The inbox
  {
    name: "client-key",
    does: "a message that is sent again under its key is admitted again",
    file: "packages/core/src/MemoryStore.ts",
    find: "entry.keys.set(fact.data.clientKey, { seq: fact.seq, data: fact.data, digest })",
    put: "",
    suites: [contract]
  },
  {
    name: "client-key-body",
    does: "another message under a used key gets the first one's answer",
    file: "packages/core/src/Admission.ts",
    find: "if (view.keyed.digest !== digest) {",
    put: "if (view.keyed.digest === undefined) {",
    suites: ["test/core/Admission.test.ts"]
  },
  {
    name: "steer-boundary",
    does: "a steer is read when the model has been asked already",
    file: plan,
    find: `    ...Inbox.steersFor(state.pending, turn.id).flatMap((item) => applyItem(item, turn.id, step)),
    { type: "step.started", data: { turnId: turn.id, step, kind } }
`,
    put: `    { type: "step.started", data: { turnId: turn.id, step, kind } },
    ...Inbox.steersFor(state.pending, turn.id).flatMap((item) => applyItem(item, turn.id, step))
`,
    suites: [engine]
  },
  {
    name: "steers-at-the-end",
    does: "the steers a Turn leaves behind belong to nobody",
    file: plan,
    find: "    ...returned,\n",
    put: "",
    suites: [engine]
  },
  {
    name: "idle-with-work",
    does: "a session says idle at the end of a Turn while messages wait",
    file: plan,
    find: "...(left === 0 ? [",
    put: "...(left >= 0 ? [",
    suites: ["test/core/TurnPlan.test.ts"]
  },
  {
    name: "cancel-loses-the-waiting",
    does: "a cancel takes back what was to wait for the next Turn",
    file: "packages/core/src/Inbox.ts",
    find: 'item.ifNotApplied === "return" ? "returned" : "follow-up"',
    put: '"returned"',
    suites: [engine]
  },
  {
    name: "withdraw-applied",
    does: "a message that was read is taken back",
    file: "packages/core/src/Admission.ts",
    find: 'if (state !== "waiting") return',
    put: 'if (state === "returned") return',
    suites: [model]
  },
  // What is seen
  {
    name: "watch-gap",
    does: "what was not heard is not read from the journal",
    file: "packages/runtime/src/Watch.ts",
    find: 'const isNext = "event" in item && item.event.seq === last + 1',
    put: 'const isNext = "event" in item',
    suites: [engine]
  },
  // Tools of MCP servers
  {
    name: "mcp-pin",
    does: "a tool is called that is not the one the model was shown",
    file: "packages/runtime/src/mcp/Connection.ts",
    find: "if (now?.digest !== tool.digest)",
    put: "if (now === undefined)",
    suites: [mcp]
  },
  {
    name: "mcp-trust",
    does: "any server may say that its tools only read",
    file: "packages/runtime/src/mcp/ToolList.ts",
    find: 'if (trust !== true) return "once"',
    put: "",
    suites: [mcp]
  },
  {
    name: "mcp-outcome",
    does: "a payment whose server died is told to have failed",
    file: "packages/runtime/src/ToolRun.ts",
    find: "ToolAnswer.isUnknown(exit) && ",
    put: "false && ",
    suites: [mcp]
  },
  {
    name: "mcp-cancel",
    does: "nobody tells a server that its call is not wanted any more",
    file: "packages/runtime/src/mcp/Link.ts",
    find: "              signal,\n              toolDefinition",
    put: "              toolDefinition",
    suites: [mcp]
  },
  {
    name: "mcp-group",
    does: "what a server has started stays behind",
    file: "packages/runtime/src/mcp/StdioTransport.ts",
    find: "process.kill(-child.pid, name)",
    put: "process.kill(child.pid, name)",
    suites: [mcp]
  },
  {
    name: "mcp-environment",
    does: "every server gets the environment of this process",
    file: "packages/runtime/src/mcp/StdioTransport.ts",
    find: "...getDefaultEnvironment()",
    put: "...process.env",
    suites: [mcp]
  },
  {
    name: "mcp-secrets",
    does: "a server's last words tell its key",
    file: "packages/runtime/src/mcp/Endpoint.ts",
    find: 'shown.replaceAll(secret, "***")',
    put: "shown",
    suites: [mcp]
  },
  // Protected places
  {
    name: "protected-by-name",
    does: "a protected path is known by its name: a hard link to the token is another file",
    file: "packages/runtime/src/ProtectedPath.ts",
    find: "(spot.id !== undefined && ids.has(spot.id)) ||",
    put: "",
    suites: ["test/runtime/tools/ProtectedPath.test.ts"]
  },
  {
    name: "foreign-folder",
    does: "a start goes on with what a copied data folder holds, whoever recorded it",
    file: "packages/server/src/DataFolder.ts",
    find: 'identityIn(folder) === identityOf(folder) ? "own" : "foreign"',
    put: '"own"',
    suites: ["test/server/DataFolder.test.ts"]
  },
  {
    name: "git-fetches",
    does: "git fetches by a command of the data folder's author while it is asked what it tracks",
    file: "packages/server/src/DataFolder.ts",
    find: ', GIT_ALLOW_PROTOCOL: "none", GIT_NO_LAZY_FETCH: "1"',
    put: "",
    suites: ["test/server/DataFolder.test.ts"]
  },
  {
    name: "bare-repository",
    does: "a tool writes the hooks of a repository that is not called .git",
    file: "packages/runtime/src/tools/WorkspacePath.ts",
    find: 'if (!(yield* has("HEAD"))) continue',
    put: "continue",
    suites: ["test/runtime/tools/WorkspacePath.test.ts"]
  },
  {
    name: "linked-token",
    does: "a hard link to the token is read",
    file: "packages/server/src/Launch.ts",
    find: "  yield* ProtectedPath.protect(yield* Token.fileIn(data.value))\n",
    put: "",
    suites: ["test/server/Places.test.ts"]
  },
  {
    name: "mcp-rug-pull",
    does: "tools that changed after they were approved are offered",
    file: "packages/runtime/src/mcp/Connection.ts",
    find: "isApproved ? found : withheld(found)",
    put: "found",
    suites: ["test/server/McpFile.test.ts"]
  },
  {
    name: "written-configuration",
    does: "a tool writes where a protected file is missing for now",
    file: "packages/runtime/src/tools/WorkspacePath.ts",
    find: "    yield* checkWritable(path, real)\n",
    put: "",
    suites: ["test/runtime/tools/ProtectedPath.test.ts"]
  },
  // The wires of models
  {
    name: "merged-calls",
    does: "a call of another name is taken for the rest of the one before it",
    file: "packages/runtime/src/model/openai/ToolCallSlots.ts",
    find: "if (isBlank(slot.text)) slot.needsArguments = true // C3",
    put: "if (isBlank(slot.text)) slot.needsArguments = false",
    suites: ["test/runtime/model/ToolCallPieces.test.ts"]
  },
  {
    name: "foreign-signature",
    does: "what one model has signed is sent to another",
    file: "packages/core/src/history/codecs/ChatOpaque.ts",
    find: "kept.issuer === undefined || kept.issuer === issuer",
    put: "true",
    suites: ["test/runtime/model/OpenAiChatMessages.test.ts"]
  },
  {
    name: "lost-signature",
    does: "what a provider has signed does not come back to it",
    file: "packages/runtime/src/ModelAnswer.ts",
    find: "  if (entries.length === 0) return options\n",
    put: "  return options\n",
    suites: ["test/runtime/model/OpaqueBridge.test.ts"]
  },
  {
    name: "crowded-answer",
    does: "an answer of a model may have as many calls as it likes",
    file: "packages/runtime/src/AnswerBudget.ts",
    find: "if (count > limits.parts) return",
    put: "if (count > Infinity) return",
    suites: ["test/runtime/AnswerBudget.test.ts"]
  },
  {
    name: "silent-answer",
    does: "signs of life are taken for progress",
    file: "packages/runtime/src/AnswerBudget.ts",
    find: 'return part.delta !== ""',
    put: "return true",
    suites: ["test/runtime/AnswerBudget.test.ts"]
  },
  {
    name: "empty-account",
    does: "an empty account is asked again like a rate limit",
    file: "packages/runtime/src/model/ProviderRefusal.ts",
    find: "  if (spent.some((sentence) => sentence.test(text))) return true\n",
    put: "",
    suites: ["test/runtime/model/Refusals.test.ts"]
  },
  {
    name: "unfinished-answer",
    does: "an answer without a finish reason is taken for a whole one",
    file: "packages/runtime/src/model/openai/ChatDecoder.ts",
    find: "finishReason === undefined && (tellsFinish || !done)",
    put: "finishReason === undefined && !done",
    suites: ["test/runtime/model/OpenAiChatQuirks.test.ts"]
  },
  // Work of a model's choosing, and files that several change
  {
    name: "endless-debt",
    does: "a session whose work is stopped for its time again and again is given more",
    file: "packages/runtime/src/offthread/OffThread.ts",
    find: "if (owed > mostDebt) return yield* wasteful(owed - mostDebt)",
    put: "",
    suites: ["test/runtime/offthread/OffThread.test.ts"]
  },
  {
    name: "unbounded-waiting",
    does: "work waits for a task process without limit",
    file: "packages/runtime/src/offthread/OffThread.ts",
    find: "if (lanes.size() >= mostWaiting) return Effect.fail(tooMuch)",
    put: "",
    suites: ["test/runtime/offthread/OffThread.test.ts"]
  },
  {
    name: "lost-edit",
    does: "an edit takes the place of what another program wrote meanwhile",
    file: "packages/runtime/src/tools/WorkspaceWrite.ts",
    find: "if ((yield* OffThread.run(task.version, place.real)) !== version) return yield* new FileChanged()",
    put: "",
    suites: ["test/runtime/tools/WorkspaceWrite.test.ts"]
  },
  {
    name: "two-line-ends",
    does: "an edit compares the text it is given with the bytes of the file",
    file: "packages/runtime/src/tools/TextEdit.ts",
    find: 'const normalised = (text: string): string => text.replaceAll("\\r\\n", "\\n")',
    put: "const normalised = (text: string): string => text",
    suites: ["test/runtime/tools/TextEdit.test.ts"]
  },
  {
    name: "wide-braces",
    does: "a glob has as many alternatives as fit into its text",
    file: "packages/runtime/src/tools/WorkspaceTree.ts",
    find: "alternatives(pattern) > mostAlternatives",
    put: "alternatives(pattern) < 0",
    suites: ["test/runtime/tools/Killers.test.ts"]
  }
]

/** The file with the change in it. Throws when its guard is not there, or is there more than once. */
export const apply = (mutant: Mutant, source: string): string => {
  const places = source.split(mutant.find).length - 1
  if (places !== 1) throw new Error(`${mutant.name}: the mutant no longer applies, its guard stands ${places} times`)
  return source.replace(mutant.find, () => mutant.put)
}
