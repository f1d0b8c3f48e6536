/**
 * What each provider refuses in a message history, as data.
 *
 * Owns: the names (formats, profiles, codes), the form of findings and changes, and the rules that differ between
 * providers. Does not own: how a rule is checked (`Verify`) or mended (`Repair`), or the form of messages (`formats/`).
 *
 * Rule ids in comments (O1, A3, …) are those of `RuleBook`.
 */
import * as Schema from "effect/Schema"

/** The form in which the messages are written. */
export const FormatName = Schema.Literals([
  "openai-chat",
  "openai-responses",
  "anthropic",
  "gemini",
  "ai-sdk-model",
  "ai-sdk-ui"
])
export type FormatName = typeof FormatName.Type

/**
 * Who will read the history, where that is stricter or laxer than the format's own provider. `strict-alternation` are
 * chat templates and Bedrock Converse; `no-prefill` are models that refuse an assistant message at the end.
 */
export const Profile = Schema.Literals([
  "openai",
  "deepseek",
  "mistral",
  "kimi",
  "vllm",
  "strict-alternation",
  "bedrock",
  "no-prefill"
])
export type Profile = typeof Profile.Type

/** `error`: the provider refuses. `portability`: the issuing provider accepts, others refuse. `info`: nothing to mend. */
export const Severity = Schema.Literals(["error", "portability", "info"])
export type Severity = typeof Severity.Type

/** What is wrong. */
export const Code = Schema.Literals([
  "APPROVAL_MISMATCH",
  "ARGS_EMPTY",
  "ARGS_INVALID_JSON",
  "ARGS_NOT_OBJECT",
  "CONTENT_AFTER_CALL",
  "DANGLING_CALL",
  "DENIED_WITHOUT_RESULT",
  "DUPLICATE_CALL_ID",
  "DUPLICATE_RESULT",
  "EMPTY_CONTENT",
  "EMPTY_TEXT_BLOCK",
  "ENDS_WITH_ASSISTANT",
  "ID_INVALID",
  "ID_PREFIX",
  "ITEM_ID_DUPLICATE",
  "MALFORMED_UNICODE",
  "MESSAGE_UNKNOWN",
  "NAME_INVALID",
  "ORPHAN_RESULT",
  "PART_INVALID",
  "PART_MISPLACED",
  "PENDING_APPROVAL",
  "REASONING_FIELD_MISSING",
  "REASONING_MISSING_FOLLOWER",
  "REASONING_MODIFIED",
  "REASONING_NOT_ALLOWED",
  "REASONING_NOT_SENDABLE",
  "REASONING_REQUIRED_MISSING",
  "REFERENCE_NOT_SENDABLE",
  "RESULT_MISSING_OUTPUT",
  "RESULT_NOT_ADJACENT",
  "RESULT_NOT_FIRST",
  "RESULT_ORDER",
  "RESULT_SPLIT",
  "RESULT_TOO_LONG",
  "ROLE_ORDER",
  "SERVER_TOOL_UNPAIRED",
  "SIGNATURE_MISSING",
  "SUSPENDED_CALL",
  "TOOLS_UNDECLARED",
  "TRAILING_BLANK",
  "UI_STATE_STALE",
  "UNREADABLE_IMAGE",
  "UNSUPPORTED_RESULT_CONTENT"
])
export type Code = typeof Code.Type

/** What the owner of the history can do about a finding that cannot be mended in place. */
export const Choice = Schema.Literals([
  "answer-call",
  "declare-tools",
  "disable-thinking",
  "finish-batch",
  "flatten-tools",
  "inline-item",
  "remove-message",
  "restore-record",
  "shorten-output"
])
export type Choice = typeof Choice.Type

/**
 * One fault. `at` is a JSON pointer into the message array; for a missing field it names the field. A finding with
 * `choices` cannot be mended without a decision of the owner; every other `error` or `portability` can.
 */
export const Finding = Schema.Struct({
  code: Code,
  at: Schema.String,
  severity: Severity,
  message: Schema.String,
  choices: Schema.optionalKey(Schema.Array(Choice))
})
export type Finding = typeof Finding.Type

/** How a message was changed. */
export const Action = Schema.Literals([
  "collapse",
  "drop",
  "flatten",
  "insert",
  "move",
  "rename",
  "reorder",
  "restore",
  "rewrite",
  "synthesise"
])
export type Action = typeof Action.Type

/**
 * One change of a repair, for the finding it answers. `at` points into the messages that were given; inside a message
 * that the same repair had changed before, it counts the changed parts. `dropped` holds every piece of content that is
 * no longer in the messages.
 */
export const Change = Schema.Struct({
  code: Code,
  at: Schema.String,
  action: Action,
  note: Schema.String,
  dropped: Schema.optionalKey(Schema.Array(Schema.Unknown))
})
export type Change = typeof Change.Type

/** What is known about the request the history is for. Nothing known: the format's own provider, the next thing is a request. */
export const Context = Schema.Struct({
  /** Whose rules count on top of the format's own. */
  profile: Schema.optionalKey(Schema.Union([Profile, Schema.Array(Profile)])),
  /** Whether the request has thinking switched on; unknown if absent. */
  thinking: Schema.optionalKey(Schema.Boolean),
  /** The tools the request declares; unknown if absent. */
  tools: Schema.optionalKey(Schema.Array(Schema.Unknown)),
  /** `terminated`: unanswered calls at the end will never be answered. Otherwise they are suspended. */
  turn: Schema.optionalKey(Schema.Literals(["suspended", "terminated"])),
  /** `archive`: the history is stored, not sent, so it may end as it likes. */
  purpose: Schema.optionalKey(Schema.Literals(["next-request", "archive"])),
  model: Schema.optionalKey(Schema.String),
  /** OpenAI Responses: `false` if the provider keeps nothing of its own between requests. */
  store: Schema.optionalKey(Schema.Boolean),
  /** OpenAI Responses: unanswered call ids of the chain that `previous_response_id` or the conversation brings along. */
  openCalls: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Messages as the provider issued them; reasoning and signatures are restored from here. */
  record: Schema.optionalKey(Schema.Array(Schema.Unknown)),
  /** What becomes of a result whose call is gone: `drop` (default) or a marked `text`. */
  orphans: Schema.optionalKey(Schema.Literals(["drop", "text"])),
  /** The choice taken where a finding offered `flatten-tools`: tool rounds become marked text. */
  flatten: Schema.optionalKey(Schema.Boolean)
})
export type Context = typeof Context.Type

/** The rules in which formats and profiles differ. */
export interface Rules {
  /** Which call ids the provider takes; `undefined`: ids are optional. */
  readonly callId: { readonly pattern?: RegExp; readonly max?: number; readonly portableMax?: number } | undefined
  /** Where a call id may not recur: in the whole history or in one batch. */
  readonly callIdScope: "history" | "batch"
  /** A call id of an earlier batch recurs and is answered. */
  readonly recurringCallId: Severity
  /** Results follow as a run of messages, or in the one message that comes next. */
  readonly placement: "run" | "next"
  /** A result stands apart from its batch. */
  readonly apart: Severity
  /** The results of a batch are spread over several messages. */
  readonly split?: Severity
  /** Results stand in front of the other content of their message. */
  readonly resultsFirst?: boolean
  /** Results follow the order of the calls. */
  readonly resultOrder?: Severity
  /** Which tool names are taken in calls of the past. */
  readonly toolName?: { readonly pattern: RegExp; readonly severity: Severity }
  /** Arguments that are no JSON text, or nothing. */
  readonly badArgs: Severity
  /** Text may not stand behind a call in its message. */
  readonly textBeforeCalls?: boolean
  readonly alternates?: boolean
  readonly noUserAfterTool?: boolean
  readonly endsWithUser?: boolean
  /** Tool blocks in the history demand declared tools. */
  readonly declaresTools?: boolean
  /** With thinking, assistant messages of tool rounds carry `reasoning_content`. */
  readonly reasoningContent?: boolean
}

const legalName = /^[A-Za-z0-9_-]{1,64}$/

/** The rules of each format's own provider. */
export const contracts: { readonly [K in FormatName]: Rules } = {
  "openai-chat": {
    callId: { max: 64, portableMax: 40 }, // O8
    callIdScope: "history",
    recurringCallId: "portability",
    placement: "run",
    apart: "error", // O1
    toolName: { pattern: legalName, severity: "error" }, // O7
    badArgs: "error" // O9: refused by compatible servers
  },
  "openai-responses": {
    callId: { max: 64 }, // R7
    callIdScope: "history",
    recurringCallId: "error", // R5
    placement: "run",
    apart: "portability", // R4
    toolName: { pattern: legalName, severity: "portability" },
    badArgs: "portability" // O9
  },
  anthropic: {
    callId: { pattern: /^[a-zA-Z0-9_-]+$/ }, // A11
    callIdScope: "history",
    recurringCallId: "error", // A6
    placement: "next",
    apart: "error", // A1
    split: "portability", // A3
    resultsFirst: true, // A2
    toolName: { pattern: legalName, severity: "portability" }, // A11
    badArgs: "error",
    declaresTools: true // A14
  },
  gemini: {
    callId: undefined, // G5
    callIdScope: "batch",
    recurringCallId: "portability",
    placement: "next",
    apart: "error", // G1
    split: "error", // G1
    toolName: { pattern: /\S/, severity: "error" }, // G5: names match
    badArgs: "error",
    endsWithUser: true // G3
  },
  "ai-sdk-model": {
    callId: {},
    callIdScope: "history",
    recurringCallId: "error",
    placement: "run",
    apart: "error", // V2
    badArgs: "portability"
  },
  "ai-sdk-ui": {
    callId: {},
    callIdScope: "history",
    recurringCallId: "error", // U5
    placement: "run",
    apart: "error",
    badArgs: "portability"
  }
}

/** What each profile changes. */
export const profiles: { readonly [K in Profile]: Partial<Rules> } = {
  openai: { badArgs: "portability" }, // O9
  deepseek: { reasoningContent: true },
  mistral: { callId: { pattern: /^[A-Za-z0-9]{9}$/ }, noUserAfterTool: true, endsWithUser: true },
  kimi: { callIdScope: "batch" },
  vllm: { callIdScope: "batch" },
  "strict-alternation": { alternates: true },
  bedrock: {
    split: "error", // A3
    resultOrder: "portability", // A7
    textBeforeCalls: true, // A8
    toolName: { pattern: legalName, severity: "error" } // A11
  },
  "no-prefill": { endsWithUser: true } // A15
}

/** The rules for a history of this format, in this context. */
export const rulesFor = (format: FormatName, context: Context): Rules => {
  const { profile } = context
  if (profile === undefined) return contracts[format]
  const named = typeof profile === "string" ? [profile] : profile
  return named.reduce<Rules>((rules, name) => ({ ...rules, ...profiles[name] }), contracts[format])
}
