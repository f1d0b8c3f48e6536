/** One conversation for every run of the suite; more are in `npm run test:crash`. */
import * as LostConnection from "./LostConnection.ts"

LostConnection.suite(1, 6)
