/**
 * Names of tools in a history.
 *
 * Models invent names such as `functions.read`. Providers check the name of an
 * earlier call as strictly as the names of declared tools, so one invented name
 * would spoil every later request.
 */

/** A name that every provider accepts: legal ones stay, others are mended. */
export const toLegal = (name: string): string =>
  /^[\w-]{1,64}$/.test(name) ? name : name.replace(/[^\w-]/g, "_").slice(0, 64) || "unknown"
