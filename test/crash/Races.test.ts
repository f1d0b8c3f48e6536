/** A few takeover races, for every run of the suite; ten thousand are in `npm run test:crash`. */
import * as Databases from "../sql/Databases.ts"
import * as Races from "./Races.ts"

for (const database of Databases.migrated) Races.suite(database, database.name === "PostgreSQL" ? 400 : 100)
