/** Runs something for each, so many at a time, and answers in order: whoever hangs holds up its own place only. */
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
