const AT_ONCE = 5

/** Runs something for each, a few at a time, and answers in order. */
export async function inTurns<In, Out>(
  items: readonly In[],
  run: (item: In) => Promise<Out>,
): Promise<Out[]> {
  const results: Out[] = []
  let next = 0
  const work = async () => {
    for (let index = next++; index < items.length; index = next++)
      results[index] = await run(items[index] as In)
  }
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, work))
  return results
}
