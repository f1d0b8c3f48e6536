/** One zombie for every run of the suite; a dozen are in `npm run test:crash`. */
import * as SplitBrain from "./SplitBrain.ts"

SplitBrain.suite("tool-started", "after-commit", false)
