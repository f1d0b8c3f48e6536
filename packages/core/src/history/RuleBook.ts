/**
 * The rules of the contract in words, each with its evidence. Nothing here was tested against a live interface by us.
 *
 * Owns: what a rule id means and how well it is founded. Does not own: the checks, which cite these ids.
 */
import { rule, type Rule } from "./Rule.ts"
import * as Shapes from "./ShapeRules.ts"

/** OpenAI Chat Completions, and the profiles of its relatives. */
export const openAiChat: ReadonlyArray<Rule> = [
  rule(
    "O1",
    "Every call of an assistant message is answered by a tool message before a message of another role.",
    ["DANGLING_CALL", "RESULT_NOT_ADJACENT"],
    ["error"],
    "agno#3105, kimi-code#269, dify#32222"
  ),
  rule(
    "O2",
    "A tool message answers a call of the assistant message in front of it.",
    ["ORPHAN_RESULT"],
    ["error"],
    "litellm#4931, crewAI#931, langmem#98"
  ),
  rule("O3", "A call has one result.", ["DUPLICATE_RESULT"], ["error"], "langmem#98, crush#3121"),
  rule("O4", "The order of results inside a batch is free.", [], ["inference"]),
  rule(
    "O5",
    "The content of an assistant message is absent only beside calls, and a list of content is not empty.",
    ["EMPTY_CONTENT"],
    ["schema", "error"],
    "ChatCompletionRequestAssistantMessage, codex#22602"
  ),
  rule(
    "O6",
    "A tool message has content, and of text only.",
    ["UNSUPPORTED_RESULT_CONTENT", "RESULT_MISSING_OUTPUT"],
    ["schema", "error"],
    "ChatCompletionRequestToolMessage, OpenHands#7700"
  ),
  rule(
    "O7",
    "Tool names have 1 to 64 of the characters A-Z a-z 0-9 _ -, in the history too.",
    ["NAME_INVALID"],
    ["schema", "error"],
    "FunctionObject, mcp-use#90"
  ),
  rule(
    "O8",
    "Call ids are not empty and have at most 64 characters; some servers take 40.",
    ["ID_INVALID", "DUPLICATE_CALL_ID"],
    ["error"],
    "vercel/ai#5171, autogen#6377, vercel/ai PR#17233, openclaw PR#875, fireconnect#16"
  ),
  rule(
    "O9",
    "Arguments are the text of a JSON object. OpenAI itself does not look; compatible servers do.",
    ["ARGS_INVALID_JSON", "ARGS_EMPTY", "ARGS_NOT_OBJECT"],
    ["schema", "error"],
    "codegraff#752, codex-relay#57, DSpark#55"
  ),
  rule("O10", "Several user messages in a row, and an assistant message at the end, are accepted.", [], ["inference"]),
  rule("O11", "The request is well-formed Unicode.", ["MALFORMED_UNICODE"], ["error"], "elizaOS PR#18079"),
  rule(
    "deepseek",
    "With thinking, the assistant messages of rounds with calls keep their reasoning_content.",
    ["REASONING_REQUIRED_MISSING"],
    ["error"],
    "rikkahub#1587, pi#3636"
  ),
  rule(
    "mistral",
    "No user message follows a tool message; call ids have exactly nine letters or digits.",
    ["ROLE_ORDER", "ID_INVALID"],
    ["error"],
    "datapizza#98, litellm#6323, eca#233, gptel#1203"
  ),
  rule(
    "strict-alternation",
    "User and assistant alternate, the user first.",
    ["ROLE_ORDER"],
    ["error"],
    "mistral-vibe#255, semantic-kernel#10281"
  ),
  rule("kimi, vllm", "Call ids count inside one message only.", [], ["error"], "vllm#50295"),
  ...Shapes.openAiChat
]

/** OpenAI Responses. */
export const openAiResponses: ReadonlyArray<Rule> = [
  rule("R1", "Every call has its output.", ["DANGLING_CALL"], ["error"], "codex#394, codex#5385"),
  rule(
    "R2",
    "Every output names a call of the input or of the chain the request continues.",
    ["ORPHAN_RESULT"],
    ["error"],
    "langchain#34282, n8n#33431, openai-node#2571"
  ),
  rule(
    "R3",
    "The type of an output is the one its call asks for.",
    ["DANGLING_CALL"],
    ["client", "error"],
    "codex normalize.rs, OmniRoute#8946"
  ),
  rule(
    "R4",
    "Outputs are matched by call_id wherever they stand; gateways that rebuild Chat messages want them next to the call.",
    ["RESULT_NOT_ADJACENT"],
    ["client", "inference"],
    "codex normalize.rs, billion-context#766"
  ),
  rule(
    "R5",
    "A call_id occurs once, and has one output.",
    ["DUPLICATE_CALL_ID", "DUPLICATE_RESULT"],
    ["error"],
    "hermes PR#111443"
  ),
  rule(
    "R6",
    "An item id is optional; where given it has the prefix of its type and occurs once.",
    ["ID_PREFIX", "ID_INVALID", "ITEM_ID_DUPLICATE"],
    ["error"],
    "plexus PR#791, mastra#10815, langchainjs#11044, pi#5151, vercel/ai#13307"
  ),
  rule(
    "R7",
    "An output has its content, of at most 10485760 characters; a call_id has 1 to 64.",
    ["RESULT_MISSING_OUTPUT", "RESULT_TOO_LONG", "ID_INVALID"],
    ["schema", "error"],
    "FunctionCallOutputItemParam, vercel/ai#14428"
  ),
  rule(
    "R8",
    "Reasoning has id and summary, and is followed by the item it produced.",
    ["REASONING_FIELD_MISSING", "REASONING_MISSING_FOLLOWER"],
    ["schema", "error"],
    "ReasoningItem, Agora#141, vercel/ai#7099, continue#8933"
  ),
  rule(
    "R9",
    "If nothing is stored, there are no references, and reasoning is encrypted. A call is never a reference.",
    ["REASONING_NOT_SENDABLE", "REFERENCE_NOT_SENDABLE"],
    ["client"],
    "vercel/ai convert-to-openai-responses-input"
  ),
  ...Shapes.openAiResponses
]

/** Anthropic Messages, and the profiles `bedrock` and `no-prefill`. */
export const anthropic: ReadonlyArray<Rule> = [
  rule(
    "A1",
    "Every tool_use is answered in the next message, which is the user's.",
    ["DANGLING_CALL", "RESULT_NOT_ADJACENT"],
    ["schema", "error"],
    "docs: handle tool calls, claude-code#5989, kilocode#5163"
  ),
  rule(
    "A2",
    "Results stand in front of all other content of their message.",
    ["RESULT_NOT_FIRST"],
    ["schema", "error"],
    "docs: handle tool calls, qwen-code#8161, hermes PR#65369"
  ),
  rule(
    "A3",
    "The results of a batch are in one message. Bedrock refuses otherwise.",
    ["RESULT_SPLIT"],
    ["schema", "error"],
    "docs: parallel tool use, mcp-agent#302, mlflow#24296"
  ),
  rule(
    "A4",
    "A result answers a tool_use of the message in front.",
    ["ORPHAN_RESULT"],
    ["error"],
    "claude-code#24670, coday#149"
  ),
  rule("A5", "A tool_use has one result.", ["DUPLICATE_RESULT"], ["error"], "Roo PR#9248, qwen-code PR#8163"),
  rule(
    "A6",
    "tool_use ids are unique; taken as of the whole request.",
    ["DUPLICATE_CALL_ID"],
    ["error"],
    "claude-code#28515, csharp#53"
  ),
  rule("A7", "Bedrock wants results in the order of the calls.", ["RESULT_ORDER"], ["error"], "bifrost PR#4410"),
  rule(
    "A8",
    "Bedrock wants text in front of the calls of its message.",
    ["CONTENT_AFTER_CALL"],
    ["error", "client"],
    "litellm#24361, vercel/ai moveToolUseBlocksToEnd"
  ),
  rule(
    "A9",
    "A tool the provider runs stands with its result in one assistant message.",
    ["SERVER_TOOL_UNPAIRED"],
    ["error"],
    "anthropic-sdk-python PR#1151, claude-code#64026"
  ),
  rule(
    "A10",
    "Messages and text blocks are not empty, but for an assistant message at the end.",
    ["EMPTY_CONTENT", "EMPTY_TEXT_BLOCK"],
    ["error"],
    "claude-code#6774, hermes PR#1216"
  ),
  rule(
    "A11",
    "tool_use.input is an object, its id has letters, digits, _ and - only; Bedrock checks the name too.",
    ["ARGS_NOT_OBJECT", "ID_INVALID", "NAME_INVALID"],
    ["error"],
    "claude-code#6696, cc-switch#1181, pydantic-ai#4585"
  ),
  rule(
    "A12",
    "With thinking, the latest answer with calls begins with its thinking, unchanged; without thinking it has none.",
    ["REASONING_REQUIRED_MISSING", "REASONING_MODIFIED", "REASONING_NOT_ALLOWED"],
    ["error"],
    "mastra#7799, opencode#3077, claude-code#63203, forgecode#1853"
  ),
  rule("A13", "The request is well-formed Unicode.", ["MALFORMED_UNICODE"], ["error"], "claude-code#56064"),
  rule(
    "A14",
    "A request with tool blocks declares tools.",
    ["TOOLS_UNDECLARED"],
    ["error"],
    "sigit PR#81, HolmesGPT PR#2214"
  ),
  rule(
    "A15",
    "Newer models want a user message at the end.",
    ["ENDS_WITH_ASSISTANT"],
    ["error"],
    "magic-context#512, oh-my-openagent#3756"
  ),
  rule("A16", "Images can be read.", ["UNREADABLE_IMAGE"], ["error"], "browser-use#4742"),
  rule(
    "A17",
    "Calls and thinking stand in assistant messages only.",
    ["PART_MISPLACED"],
    ["inference"],
    "the roles of the documented block types"
  ),
  ...Shapes.anthropic
]

/** Gemini generateContent. */
export const gemini: ReadonlyArray<Rule> = [
  rule(
    "G1",
    "The message after calls has as many responses as there are calls.",
    ["DANGLING_CALL", "ORPHAN_RESULT", "DUPLICATE_RESULT", "RESULT_SPLIT", "RESULT_NOT_ADJACENT"],
    ["error"],
    "gemini-cli#4217, gemini-cli#16543"
  ),
  rule("G2", "A message with calls follows a message of the user.", ["ROLE_ORDER"], ["error"], "gemini-cli#11814"),
  rule("G3", "A request ends with a message of the user.", ["ENDS_WITH_ASSISTANT"], ["error"], "crewAI PR#6973"),
  rule(
    "G4",
    "From Gemini 3 on, the first call of each message of the current turn carries its thought signature.",
    ["SIGNATURE_MISSING"],
    ["schema", "client"],
    "docs: thought signatures, agent-framework#6963"
  ),
  rule(
    "G5",
    "Without ids, responses are matched by name and position; a response has the name of its call.",
    ["NAME_INVALID", "PART_MISPLACED"],
    ["client"],
    "vercel/ai google converter, AstrBot#9876"
  ),
  ...Shapes.gemini
]

/** Vercel AI SDK, ModelMessages (V) and UIMessages (U). */
export const aiSdk: ReadonlyArray<Rule> = [
  rule(
    "V1",
    "Each role carries its own kinds of parts.",
    ["PART_MISPLACED"],
    ["schema"],
    "vercel/ai standardizePrompt"
  ),
  rule(
    "V2",
    "Every call has its result before the next user message. The SDK checks that, and neither order nor orphans nor copies.",
    ["DANGLING_CALL", "RESULT_NOT_ADJACENT", "ORPHAN_RESULT", "DUPLICATE_RESULT", "DUPLICATE_CALL_ID"],
    ["client"],
    "vercel/ai convertToLanguageModelPrompt"
  ),
  rule(
    "V3",
    "A denied call has a result too, though the SDK lets it pass without; an answer to an approval has its question and call.",
    ["DENIED_WITHOUT_RESULT", "PENDING_APPROVAL", "APPROVAL_MISMATCH"],
    ["error", "client"],
    "vercel/ai#14428, vercel/ai PR#14479, vercel/ai collectToolApprovals"
  ),
  rule(
    "V4",
    "Results of provider-run calls stand in the assistant message, and only there.",
    ["DUPLICATE_RESULT"],
    ["error"],
    "eve PR#1246"
  ),
  rule("V5", "Tool messages in a row are merged, empty ones removed.", ["EMPTY_CONTENT"], ["client"], "vercel/ai"),
  rule(
    "U1",
    "A tool part ends in a state with a result.",
    ["UI_STATE_STALE", "RESULT_MISSING_OUTPUT"],
    ["client"],
    "vercel/ai convertToModelMessages"
  ),
  rule(
    "U2",
    "No call waits while the user speaks on.",
    ["DANGLING_CALL", "PENDING_APPROVAL"],
    ["error"],
    "vercel/ai#12709, workflow#1912"
  ),
  rule("U3", "No step has only empty text.", ["EMPTY_TEXT_BLOCK"], ["error"], "vercel/ai#15248"),
  rule(
    "U4",
    "User and system messages have parts; approvals agree with the state.",
    ["EMPTY_CONTENT", "APPROVAL_MISMATCH"],
    ["schema"],
    "vercel/ai validateUIMessages"
  ),
  rule("U5", "A call id stands in one part.", ["DUPLICATE_CALL_ID"], ["error"], "vercel/ai#18457"),
  ...Shapes.aiSdk
]

/** All rules. */
export const rules: ReadonlyArray<Rule> = [...openAiChat, ...openAiResponses, ...anthropic, ...gemini, ...aiSdk]
