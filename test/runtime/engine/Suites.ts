/** The engine's suites: what a Turn does, whatever the store. */
import * as Agent from "./Agent.ts"
import * as Breaker from "./Breaker.ts"
import * as Budget from "./Budget.ts"
import * as Consent from "./Consent.ts"
import * as DurableRead from "./DurableRead.ts"
import * as Ephemeral from "./Ephemeral.ts"
import * as Execution from "./Execution.ts"
import * as Handover from "./Handover.ts"
import * as History from "./History.ts"
import * as Input from "./Input.ts"
import * as LargeOutput from "./LargeOutput.ts"
import * as ModelCall from "./ModelCall.ts"
import * as Output from "./Output.ts"
import * as Prepare from "./Prepare.ts"
import * as Query from "./Query.ts"
import * as RequestGate from "./RequestGate.ts"
import * as Session from "./Session.ts"
import * as SetAside from "./SetAside.ts"
import * as Steering from "./Steering.ts"
import * as Step from "./Step.ts"
import * as Stopping from "./Stopping.ts"
import * as ToolRun from "./ToolRun.ts"
import * as Turn from "./Turn.ts"
import * as Watch from "./Watch.ts"

export const suites = [
  Turn.suite,
  Step.suite,
  ToolRun.suite,
  Execution.suite,
  Consent.suite,
  Stopping.suite,
  LargeOutput.suite,
  ModelCall.suite,
  RequestGate.suite,
  Steering.suite,
  Budget.suite,
  Breaker.suite,
  Output.suite,
  DurableRead.suite,
  Session.suite,
  Handover.suite,
  Query.suite,
  Input.suite,
  SetAside.suite,
  History.suite,
  Prepare.suite,
  Agent.suite,
  Watch.suite,
  Ephemeral.suite
]
