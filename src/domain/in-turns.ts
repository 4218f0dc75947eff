/** Runs `run` for each item, at most `atOnce` at a time, and returns the results in order. An item that hangs blocks only its own slot. */
export async function inTurns<In, Out>(
  items: readonly In[],
  atOnce: number,
  run: (item: In) => Promise<Out>,
): Promise<Out[]> {
  const results: Out[] = []
  let next = 0
  const work = async () => {
    for (let index = next++; index < items.length; index = next++)
      results[index] = await run(items[index] as In)
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, work))
  return results
}
